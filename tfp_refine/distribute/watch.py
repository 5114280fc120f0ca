"""Workers that are gone, for which TensorFlow waits."""

import functools
import socket
import time

# Seconds that a process has to answer, and between two times that it must.
_TO_ANSWER, _BETWEEN = 5.0, 15.0
_CHANNEL = {
    "grpc.enable_http_proxy": 0,
    # A machine that is gone without a word is noticed; TensorFlow's servers
    # end connections that ask more often than every five minutes.
    "grpc.keepalive_time_ms": 310_000,
    "grpc.keepalive_timeout_ms": 20_000,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.client_idle_timeout_ms": 2**31 - 1,
}


def open_channel(address, alone=False):
    """Opens a connection to a process of a cluster.

    Channels of one address share one, but those that are `alone`.
    """
    import grpc  # as TensorFlow does, which requires it

    options = _CHANNEL | {"grpc.use_local_subchannel_pool": int(alone)}
    return grpc.insecure_channel(address, options=[*options.items()])


class Watch:
    """Notes which workers answer.

    As long as one has answered all the time, TensorFlow works without those
    that have ended. Without one it waits until all of them are back. For a
    worker that is stopped, or whose machine is gone without a word, it waits
    in any case.

    Args:
        addresses: Addresses `"host:port"` of the workers.
    """

    def __init__(self, addresses):
        self._answering, self._survivors, self._seen = set(), set(), set()
        self._channels = {a: open_channel(a) for a in addresses}
        self._silent, self._asked = [], time.monotonic()
        self._notes = [
            (channel, functools.partial(self._note, address))
            for address, channel in self._channels.items()
        ]
        for channel, note in self._notes:
            channel.subscribe(note, try_to_connect=True)

    def missing(self):
        """Returns addresses without which TensorFlow does not go on, a list."""
        if self._survivors:
            if time.monotonic() - self._asked > _BETWEEN:
                self._silent = [a for a in self._channels if _is_silent(a)]
                self._asked = time.monotonic()
            return self._silent
        return [a for a in self._channels if a not in self._answering]

    def recovered(self):
        """Notes that the workers that answer now are at work."""
        self._survivors = set(self._answering)

    def close(self):
        """Stops watching."""
        # Their threads end with the last subscription; `Channel.close` would
        # have them fail.
        for channel, note in self._notes:
            channel.unsubscribe(note)
            channel.unsubscribe(_ignore)

    def _note(self, address, state):
        if state.name == "READY":
            self._answering.add(address)
            if address not in self._seen:
                self._seen.add(address)
                self._survivors.add(address)
        else:
            self._answering.discard(address)
            self._survivors.discard(address)
        if state.name == "IDLE":  # where it would stay
            self._channels[address].unsubscribe(_ignore)
            self._channels[address].subscribe(_ignore, try_to_connect=True)


def _is_silent(address):
    """Says whether a process does not answer, and has not ended either."""
    import grpc  # as TensorFlow does, which requires it

    # The one that channels share is asked every five minutes only.
    channel = open_channel(address, alone=True)
    try:
        grpc.channel_ready_future(channel).result(timeout=_TO_ANSWER)
        return False
    except grpc.FutureTimeoutError:
        pass
    finally:
        channel.close()
    host, _, port = address.rpartition(":")
    try:
        # The system takes connections for a process that is stopped, and
        # refuses them for one that has ended.
        socket.create_connection((host, int(port)), _TO_ANSWER).close()
    except ConnectionRefusedError:
        return False
    except OSError:  # no way to its machine
        pass
    return True


def _ignore(state):
    del state
