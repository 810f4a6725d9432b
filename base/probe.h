/* USDT probes, provider "ringfence": a nop each in the code and a note in the file, for bpftrace,
 * perf and systemtap. No semaphores, so nothing is looked at while nobody traces. Where sys/sdt.h
 * (systemtap-sdt-dev) is missing there are none. docs/profiling.md lists them. */
#ifndef RF_BASE_PROBE_H
#define RF_BASE_PROBE_H

#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#endif
#endif

#ifdef DTRACE_PROBE2
#define RF_PROBE1(name, a)       DTRACE_PROBE1(ringfence, name, a)
#define RF_PROBE2(name, a, b)    DTRACE_PROBE2(ringfence, name, a, b)
#define RF_PROBE3(name, a, b, c) DTRACE_PROBE3(ringfence, name, a, b, c)
#else
#define RF_PROBE1(name, a)       ((void)(a))
#define RF_PROBE2(name, a, b)    ((void)(a), (void)(b))
#define RF_PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

#endif
