"""Stands in for @rules_java: what Bazel's own tools load, from Bazel itself."""

java_import = native.java_import
java_runtime = native.java_runtime
java_toolchain = native.java_toolchain
