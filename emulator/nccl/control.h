/* What tests ask of the emulated NCCL beside NCCL's own interface. Plain C: find the functions with
 * dlsym in the loaded libnccl.so.2; that they are there tells it from the real one. Thread-safe. */
#ifndef RIFFLE_EMULATOR_NCCL_CONTROL_H
#define RIFFLE_EMULATOR_NCCL_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes a setting; emulator/nccl/README.md lists them. The environment variable
 * RIFFLE_EMULATOR_NCCL_<NAME> is the setting's value at the start. Returns 1; 0 where the name or
 * the value is not understood. */
int riffle_emulator_nccl_set(const char* name, const char* value);

#ifdef __cplusplus
}
#endif

#endif
