#!/bin/sh
# Compiles a crate of ours so that libFuzzer sees which branches an input takes and what it is compared with (the flags that cargo-fuzz gives), with
# debug assertions and overflow checks. As cargo's RUSTC_WORKSPACE_WRAPPER, so that libraries are those that are built anyway.
case " $* " in *" build_script_build "*) exec "$@" ;; esac
exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions=yes -Coverflow-checks=yes
