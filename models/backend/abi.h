/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MILLRACE_BACKEND_ABI_H
#define MILLRACE_BACKEND_ABI_H

/* The boundary between a node and a model backend that is loaded at run time.
 * Plain C: neither LibTorch's types nor the standard library's cross it, so
 * that a backend may be compiled as another language mode or against another
 * LibTorch than the node. All functions return 0 for success; otherwise they
 * fill in the error. */

#include <stddef.h>
#include <stdint.h>

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
  millrace_no_memory,  /* of a GPU: another time there may be some */
  millrace_gpu_is_lost /* nothing works on it in this process any more */
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
  /* Which values its forward takes and returns, by number: 0, 1, ... are what
   * the stage is given, others what its layers return. No takes: all that the
   * stage is given. No gives, of the last layer: what it returns is the
   * stage's. */
  const uint32_t* takes;
  uint64_t take_count;
  const uint32_t* gives;
  uint64_t give_count;
} millrace_layer;

typedef struct millrace_stage millrace_stage;

/* Values by name: inputs of the model, or what a layer gives. */
typedef struct millrace_names {
  const char* const* names;
  uint64_t count;
} millrace_names;

#define millrace_along_axis_0 ", along axis 0"

/* What an operator of forward does that requests may notice of each other. */
enum {
  /* makes numbers or extents of a batch's values, or combines what lies along
     the first axis: then it ends with millrace_along_axis_0 */
  millrace_couples_rows,
  millrace_keeps_state, /* writes what later calls read */
  millrace_output_name  /* of the next output: its key in a dictionary */
};

/* What a model file is taken apart into: the names of what forward takes; what
 * its operators do; then for each layer its name, code without parameters, and
 * each parameter. */
typedef struct millrace_import_sink {
  void* self;
  void (*input)(void* self, const char* name, const char* type);
  void (*layer)(void* self, const char* name, millrace_names takes,
                millrace_names gives);
  void (*code)(void* self, const void* data, uint64_t bytes);
  void (*parameter)(void* self, const millrace_parameter* x);
  /* Names the operator and its line; only where there is no split. */
  void (*finding)(void* self, int32_t kind, const char* text);
} millrace_import_sink;

/* How a model is cut into layers: where it enters and leaves parts of itself,
 * down to so many names; of these layers, each whose number is among `firsts`
 * begins one (none: each does). Takes the first `inputs` arguments of forward.
 */
typedef struct millrace_split {
  uint32_t depth;
  uint32_t inputs;
  const uint32_t* firsts;
  uint64_t first_count;
} millrace_split;

/* Memory that a pass may make its outputs in, which then need not be copied
 * there. */
typedef struct millrace_room {
  void* begin; /* 64-byte aligned */
  uint64_t bytes;
  uint64_t used; /* set: of these so many, from begin on */
  int kept; /* set: the model goes on using some; they must stay as they are */
} millrace_room;

enum {
  millrace_in_turn, /* one pass at a time, of all that say so */
  millrace_beside, /* on a stream of its own: with others, as far as they fit */
  millrace_partitioned /* on multiprocessors of its own */
};

/* Where on a GPU a stage's parameters lie and its passes run. */
typedef struct millrace_place {
  int32_t gpu;
  int32_t sharing;
  double share;      /* of the multiprocessors, in percent; 0: all */
  int32_t streaming; /* inputs are copied while other passes compute */
  int32_t graphs;    /* passes of known shapes are recorded, and replayed */
  int32_t on_host;   /* parameters stay there, and are read over the bus */
  int32_t by_mps;    /* processes share it by NVIDIA's MPS, or open() fails */
} millrace_place;

typedef struct millrace_gpu {
  char name[128];
  int32_t major, minor; /* compute capability */
  int32_t multiprocessors;
  int32_t threads; /* of one of these, as all that follows */
  int32_t blocks;
  int32_t registers;
  uint64_t shared_memory;
  uint64_t memory; /* of the GPU, in bytes */
  uint64_t free;
} millrace_gpu;

/* A kernel that a GPU has run. */
typedef struct millrace_kernel {
  const char* name;
  uint64_t start_ns, end_ns; /* from one origin */
  uint32_t grid[3], block[3];
  uint32_t registers; /* of a thread */
  uint64_t static_shared, dynamic_shared;
  uint32_t resident; /* blocks that fit on a multiprocessor; 0: not known */
} millrace_kernel;

/* What a backend that can use GPUs has beside the rest. */
typedef struct millrace_gpu_calls {
  /* Opens those that there are. */
  int (*list)(millrace_gpu* out, uint32_t capacity, uint32_t* count,
              millrace_error* failed);
  /* Loads the libraries that passes may need, and opens no GPU. */
  int (*prepare)(millrace_error* failed);
  /* Opens all that passes there will need: for a process that is to give up its
   * right to open anything. */
  int (*open)(const millrace_place* place, millrace_error* failed);
  /* Has GPUs copy from and to this memory by themselves, until it is unpinned.
   */
  int (*pin)(void* begin, uint64_t bytes, millrace_error* failed);
  void (*unpin)(void* begin);
  /* These bytes of the parameters can be read, or all (null): what of them was
   * not copied yet is, one call at a time. A run that comes before has each
   * layer wait for its own. */
  int (*arrive)(millrace_stage* stage, const void* begin, uint64_t bytes,
                millrace_error* failed);
  /* What has not arrived never will: runs that wait for it fail. */
  void (*give_up)(millrace_stage* stage);
  /* Bytes of the GPU's memory that a stage takes: its parameters, and what has
   * been kept for its passes so far, as far as that can be told. */
  uint64_t (*memory)(const millrace_stage* stage);
  /* Notes the kernels that run for this process, from a call without a sink to
   * one with it, which gets them in the order in which they began. */
  int (*trace)(void* self, void (*sink)(void* self, const millrace_kernel* x),
               millrace_error* failed);
} millrace_gpu_calls;

typedef struct millrace_backend {
  uint32_t abi;
  /* "LibTorch 1.13.1, CPU". */
  const char* (*describe)(void);
  /* Once in each thread that will call run: threads of one operator. */
  void (*enter_thread)(int threads);
  /* Layers in order, and which values the stage gives (none: what the last
   * layer returns). Parameters are used in place, or copied to a GPU: they must
   * stay readable until unload. Code that nobody vouches for (trusted is 0) is
   * refused when it calls an operator that opens files. */
  int (*load)(const millrace_layer* layers, uint64_t count,
              const uint32_t* gives, uint64_t give_count, int trusted,
              const millrace_place* place, /* null: the host's processors */
              millrace_stage** out, millrace_error* failed);
  void (*unload)(millrace_stage* stage);
  /* One forward pass. Any thread; several at once on one stage are fine.
   * Inputs stay the caller's; outputs are the caller's to release, but for
   * those that lie in the room. Unless they are null, outputs may be made in
   * `room`, and `peak` gets how many bytes of tensors the pass had allocated at
   * most at a time, the outputs' included, but for those in a room. */
  int (*run)(millrace_stage* stage, const millrace_tensor* inputs,
             uint32_t input_count, millrace_room* room,
             millrace_tensor* outputs, uint32_t output_capacity,
             uint32_t* output_count, uint64_t* peak, millrace_error* failed);
  /* Whether what the inputs hold, and not their extents alone, may decide how
   * long a pass takes: loops, and numbers out of tensors that decide shapes. */
  int (*depends_on_values)(const millrace_stage* stage);
  /* Takes apart a model file that lies in memory; trusted as above. Without a
   * split it is one layer, which takes and gives all. */
  int (*take_apart)(const void* file, uint64_t bytes, int trusted,
                    const millrace_split* split,
                    const millrace_import_sink* sink, millrace_error* failed);
  const millrace_gpu_calls* gpu; /* null: it can use none */
} millrace_backend;

/* What a plugin exports. */
typedef const millrace_backend* (*millrace_backend_entry)(void);

#ifdef __cplusplus
}
#endif

#endif
