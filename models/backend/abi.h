/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MILLRACE_BACKEND_ABI_H
#define MILLRACE_BACKEND_ABI_H

/* The interface between a node and a model backend that is loaded at run time.
 * Plain C: it has no types of LibTorch or the standard library, so that a
 * backend may be compiled in another language mode, or against another
 * LibTorch than the node. All functions return 0 for success; otherwise they
 * fill in the error. */

#include <stddef.h>
#include <stdint.h>

#include "models/gpu/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MILLRACE_BACKEND_ABI 12
#define MILLRACE_MAX_RANK 8

typedef struct millrace_tensor {
  int32_t dtype; /* the value of millrace::dtype */
  int32_t rank;
  int64_t extents[MILLRACE_MAX_RANK];
  const void* data; /* dense, row-major */
  uint64_t bytes;
  void* owner;            /* keeps data alive until release(owner) */
  void (*release)(void*); /* null: the caller keeps data alive */
} millrace_tensor;

enum {
  millrace_failed,
  millrace_no_memory,  /* of a GPU: a later attempt may succeed */
  millrace_gpu_is_lost /* this process can no longer use the GPU */
};

typedef struct millrace_error {
  int32_t kind;
  char text[2048];
} millrace_error;

typedef struct millrace_parameter {
  const char* name;
  millrace_tensor value;
} millrace_parameter;

typedef struct millrace_layer {
  const char* name;
  const void* code;
  uint64_t code_bytes;
  const millrace_parameter* parameters;
  uint64_t parameter_count;
  /* Values that its forward takes and returns, by number: 0, 1, ... are the
   * stage's inputs, the others outputs of its layers. No takes: all inputs of
   * the stage. No gives, in the last layer: its outputs are the stage's. */
  const uint32_t* takes;
  uint64_t take_count;
  const uint32_t* gives;
  uint64_t give_count;
} millrace_layer;

typedef struct millrace_stage millrace_stage;

/* Values by name: inputs of the model, or outputs of a layer. */
typedef struct millrace_names {
  const char* const* names;
  uint64_t count;
} millrace_names;

#define millrace_along_axis_0 ", along axis 0"

/* Effects of an operator of forward through which requests influence each
 * other. */
enum {
  /* makes numbers or extents of a batch's values, or combines elements along
     the first axis: then its text ends with millrace_along_axis_0 */
  millrace_couples_rows,
  millrace_keeps_state, /* writes state that later calls read */
  millrace_output_name  /* the key of the next output in a dictionary */
};

/* Receives the parts of a model file: the names of forward's arguments; the
 * findings about its operators; then for each layer its name, code without
 * parameters, and each parameter. */
typedef struct millrace_import_sink {
  void* self;
  void (*input)(void* self, const char* name, const char* type);
  void (*layer)(void* self, const char* name, millrace_names takes,
                millrace_names gives);
  void (*code)(void* self, const void* data, uint64_t bytes);
  void (*parameter)(void* self, const millrace_parameter* x);
  /* Gives the operator and its line; only without a split. */
  void (*finding)(void* self, int32_t kind, const char* text);
} millrace_import_sink;

/* How a model is cut into layers: where it enters and leaves parts of itself,
 * down to `depth` names. `firsts` has the numbers of those layers that begin a
 * merged layer (none: all do). Takes the first `inputs` arguments of forward.
 */
typedef struct millrace_split {
  uint32_t depth;
  uint32_t inputs;
  const uint32_t* firsts;
  uint64_t first_count;
} millrace_split;

/* Memory in which a pass may make its outputs, so that they need not be copied
 * there. */
typedef struct millrace_room {
  void* begin; /* 64-byte aligned */
  uint64_t bytes;
  uint64_t used; /* set by the pass: bytes in use, from begin on */
  int kept;      /* set by the pass: the model keeps using some, unchanged */
} millrace_room;

enum {
  millrace_in_turn,    /* one pass at a time among all such stages */
  millrace_beside,     /* on a stream of its own, concurrent with others */
  millrace_partitioned /* on multiprocessors of its own */
};

/* Where a stage's parameters lie on a GPU, and how its passes run. */
typedef struct millrace_place {
  int32_t gpu;
  int32_t sharing;
  double share;      /* of the multiprocessors, in percent; 0: all */
  int32_t streaming; /* inputs are copied while other passes compute */
  int32_t graphs;    /* passes of repeated shapes are recorded, and replayed */
  int32_t on_host;   /* parameters stay on the host, read over the bus */
  int32_t by_mps; /* NVIDIA's MPS has to serve the process, or open() fails */
} millrace_place;

typedef struct millrace_gpu {
  char name[128];
  int32_t major, minor; /* compute capability */
  int32_t multiprocessors;
  int32_t threads; /* per multiprocessor, as the fields below */
  int32_t blocks;
  int32_t registers;
  uint64_t shared_memory;
  uint64_t memory; /* of the GPU, in bytes */
  uint64_t free;
} millrace_gpu;

/* Additional calls of a backend that can use GPUs. */
typedef struct millrace_gpu_calls {
  /* Opens all GPUs and describes them. */
  int (*list)(millrace_gpu* out, uint32_t capacity, uint32_t* count,
              millrace_error* failed);
  /* Loads the libraries that passes may need, and opens no GPU. */
  int (*prepare)(millrace_error* failed);
  /* Opens all libraries and devices that passes there will need, before the
   * process gives up the right to open files. */
  int (*open)(const millrace_place* place, millrace_error* failed);
  /* Page-locks this memory, so that GPUs copy from and to it directly, until
   * unpin(). */
  int (*pin)(void* begin, uint64_t bytes, millrace_error* failed);
  void (*unpin)(void* begin);
  /* These bytes of the parameters are present, or all (null): copies those that
   * were not copied yet; one call at a time. In an earlier run each layer waits
   * for its own parameters. */
  int (*arrive)(millrace_stage* stage, const void* begin, uint64_t bytes,
                millrace_error* failed);
  /* The absent parameters will never arrive: runs that wait for them fail. */
  void (*give_up)(millrace_stage* stage);
  /* Bytes of GPU memory that a stage occupies: its parameters, and memory kept
   * for its passes, as far as that is known. */
  uint64_t (*memory)(const millrace_stage* stage);
  /* Without a sink: starts to record the kernels of this process. With a sink:
   * stops, and passes the kernels to it in the order of their starts. */
  int (*trace)(void* self, void (*sink)(void* self, const millrace_kernel* x),
               millrace_error* failed);
} millrace_gpu_calls;

typedef struct millrace_backend {
  uint32_t abi;
  /* "LibTorch 1.13.1, CPU". */
  const char* (*describe)(void);
  /* To be called once in each thread that will call run; sets the number of
   * threads of one operator. */
  void (*enter_thread)(int threads);
  /* Loads layers in order; `gives` are the stage's outputs (none: the outputs
   * of the last layer). Parameters are used in place, or copied to a GPU: they
   * must stay readable until unload. Untrusted code (trusted is 0) is refused
   * when it calls an operator that opens files. */
  int (*load)(const millrace_layer* layers, uint64_t count,
              const uint32_t* gives, uint64_t give_count, int trusted,
              const millrace_place* place, /* null: the host's processors */
              millrace_stage** out, millrace_error* failed);
  void (*unload)(millrace_stage* stage);
  /* One forward pass. Any thread; concurrent runs of a stage are allowed. The
   * caller owns the inputs, and releases the outputs, except those that lie in
   * `room`. If `room` is not null, outputs may be made there. If `peak` is not
   * null, it receives the highest number of bytes of tensors allocated at once,
   * with the outputs but not those in `room`. */
  int (*run)(millrace_stage* stage, const millrace_tensor* inputs,
             uint32_t input_count, millrace_room* room,
             millrace_tensor* outputs, uint32_t output_capacity,
             uint32_t* output_count, uint64_t* peak, millrace_error* failed);
  /* Whether the time of a pass may depend on the inputs' values, not on their
   * extents alone: loops, and shapes computed from values of tensors. */
  int (*depends_on_values)(const millrace_stage* stage);
  /* Takes apart a model file in memory; `trusted` as in load. Without a split
   * it is one layer, which takes all inputs and gives all outputs. */
  int (*take_apart)(const void* file, uint64_t bytes, int trusted,
                    const millrace_split* split,
                    const millrace_import_sink* sink, millrace_error* failed);
  const millrace_gpu_calls* gpu; /* null: it can use no GPU */
} millrace_backend;

/* The function that a plugin exports. */
typedef const millrace_backend* (*millrace_backend_entry)(void);

#ifdef __cplusplus
}
#endif

#endif
