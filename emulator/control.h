/* What tests, and riffle's `device cuda-emulated`, ask of the emulated CUDA driver beside the
 * driver's own interface. Plain C: find the functions with dlsym in the loaded libcuda.so.1; that
 * they are there tells the emulator from a real driver. All are thread-safe; none needs cuInit. */
#ifndef RIFFLE_EMULATOR_CONTROL_H
#define RIFFLE_EMULATOR_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes a setting; emulator/README.md lists them (riffle_emulator_settings too). The environment
 * variable RIFFLE_EMULATOR_<NAME> is the setting's value at the start. Counting settings ("the n-th
 * … from here") count from this call. Returns 1; 0 where the name or the value is not understood.
 */
int riffle_emulator_set(const char* name, const char* value);

/* Drops everything (contexts, memory, queued work, report) and starts over, as if the process had
 * just loaded the driver, with settings from the environment. No other thread may be in a call, and
 * no host function may be blocked. */
void riffle_emulator_reset(void);

/* From now on calls return CUDA_ERROR_DEINITIALIZED, as they do while a process exits. */
void riffle_emulator_deinitialize(void);

/* From now on every call that uses the device returns `code` (46, CUDA_ERROR_DEVICE_UNAVAILABLE,
 * say), and what is queued does not run. Returns 0 where there is no such device. */
int riffle_emulator_lose_device(int device, int code);

/* How many there are of: contexts, streams, events, allocations, pinned, modules, graphs,
 * graph_execs, pools (default ones not counted). ~0 for another word. */
uint64_t riffle_emulator_live(const char* kind);

/* Copies the report, a line for each thing noticed ("race: …", "fault: …", "misuse: …", "leak: …",
 * "note: …"), at most `bytes` including the ending zero. Returns the size of the whole, without
 * that. */
size_t riffle_emulator_report(char* text, size_t bytes);
/* Lines of a kind; with "" of all kinds but notes. */
size_t riffle_emulator_report_count(const char* kind);
void riffle_emulator_report_clear(void);
/* Adds a leak line for each kind of thing that is alive. */
void riffle_emulator_report_leaks(void);

/* The table of settings, as riffle_emulator_report copies. */
size_t riffle_emulator_settings(char* text, size_t bytes);

struct riffle_emulator_statistics {
  uint64_t launches;            /* kernels run */
  uint64_t operations;          /* all that was put into streams */
  uint64_t thread_instructions; /* of all threads of all launches */
  double kernel_seconds;        /* time spent in kernels */
  /* Measured where a launch was big enough to measure, else a guess from the number of cores. A
   * program can say from it how slow a step will be. */
  double instructions_per_second;
};
void riffle_emulator_get_statistics(struct riffle_emulator_statistics* statistics);

#ifdef __cplusplus
}
#endif

#endif
