/* static_probe.h - the USDT probes (docs/probes.md): a nop each, and a note that says where it is
 * and in which registers its arguments are; a semaphore counts listeners. Notes of the form that
 * SystemTap made and perf, bpftrace, gdb and libbpf read. */
#ifndef MALLOW_PRELOAD_WATCH_STATIC_PROBE_H
#define MALLOW_PRELOAD_WATCH_STATIC_PROBE_H

#include <stdint.h>

#include "arch/usdt.h"

#ifndef MALLOW_USDT_PROVIDER
#define MALLOW_USDT_PROVIDER "mallow"
#endif
#ifndef MALLOW_USDT_OTEL
#define MALLOW_USDT_OTEL "otel_memory"
#endif

#define PROBE_SEMAPHORE(variable)                                                                  \
    __attribute__((visibility("hidden"), section(".probes"), used)) volatile uint16_t variable

#endif
