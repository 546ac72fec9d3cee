/* SPDX-License-Identifier: MIT */
/* limits - every maximum of the engine, its unit and its reason. Constants only, any thread.
 * A number from outside (file, request, flag) is compared with one of these before it is used. */
#ifndef QUIRE_CORE_LIMITS_H
#define QUIRE_CORE_LIMITS_H

/* KV geometry: part of the numerics (docs/decisions), never tunable at run time. */
/* tokens in a KV block: the GGUF quant group, one SIMD tile of keys */
#define KV_BLOCK_TOKENS 32u
/* keys in one attention split, at absolute positions: fixes the order of sums */
#define KV_SPLIT_TOKENS 256u

/* Requests and steps. */
/* tokens a request may have: keeps positions and products in 32 bits */
#define CTX_TOKENS_MAX (1u << 20)
/* rows of one step: scratch is allocated for the configured number */
#define STEP_ROWS_MAX 8192u
#define REQUESTS_MAX 65536u         /* live requests (queued and running): 16 bits of a handle */
/* top log-probabilities per token: what the OpenAI API allows */
#define OUTPUT_TOP_MAX 20u
#define STOP_IDS_MAX 16u            /* stop token ids a request may name */
#define LOGIT_BIAS_MAX 1024u        /* logit_bias entries a request may name: what vLLM allows */
#define STOP_TEXTS_MAX 16u          /* stop texts of a request: OpenAI allows 4, clients use more */
#define STOP_TEXT_BYTES_MAX 4096u   /* one stop text: longest seen is a few hundred */
#define CHOICES_MAX 128u            /* prompts x n of a request: what OpenAI allows for n */
#define EMBEDDINGS_MAX 2048u        /* inputs of an embeddings request: what OpenAI allows */
/* all parsed JSON together: ten times what the ids of 2^20 tokens take */
#define MEM_FOREIGN_BYTES_MAX (512u << 20)
#define BODY_BYTES_MAX (64u << 20)  /* one request body or batch line: 2^20 tokens fit */

/* Threads. */
#define WORKERS_MAX 256u            /* worker threads: more never helps a bandwidth-bound step */

/* Model files. */
#define GGUF_METADATA_BYTES_MAX (64u << 20) /* header of a file: large vocabularies need 20 MiB */
#define GGUF_KEYS_MAX 65536u                 /* metadata keys: real files have under 100 */
#define GGUF_TENSORS_MAX 65536u              /* tensors: large mixtures have about 2,000 */
#define GGUF_NAME_BYTES_MAX 65535u           /* one key, by the format's own rule */
#define GGUF_SPLITS_MAX 1024u                /* files of one split model */
#define MODEL_LAYERS_MAX 1024u               /* transformer blocks */
#define MODEL_VOCAB_MAX (1u << 20)           /* tokens: the largest known vocabulary has 2^18 */
/* embedding or feed-forward width: int32 dots stay exact */
#define MODEL_WIDTH_MAX (1u << 18)
#define MODEL_HEADS_MAX 1024u                /* query heads */
#define MODEL_HEAD_DIM_MAX 512u              /* width of a head: attention keeps one on the stack */
#define MODEL_VECTOR_BYTES_MAX (32u << 20)   /* copied norms and biases: largest known 17 MiB */
#define MODEL_EXPERTS_MAX 1024u              /* experts of a mixture layer */
#define TOKEN_TEXT_BYTES_MAX 65536u          /* one vocabulary entry: longest seen is 512 */
#define TOKEN_ADDED_BYTES_MAX 1024u          /* control or user-defined token: bounds look-ahead */
#define TOKEN_MERGES_MAX (1u << 21)          /* merges: the largest known list has 2^19 */
#define TOKENIZE_BYTES_MAX (1u << 30)        /* text of one call: 3-byte blanks stay in 32 bits */

/* Chat templates, one render; what it is given adds to steps and memory (jinja_import.c). */
#define TEMPLATE_BYTES_MAX (1u << 20)     /* source: the longest known has 17 KiB */
#define TEMPLATE_STEPS_MAX (16u << 20)    /* elementary steps: about a second */
#define TEMPLATE_MEMORY_MAX (64u << 20)   /* bytes of all values */
#define TEMPLATE_TEXT_MAX (64u << 20)     /* bytes of one text, the output included */
/* macros inside each other: Python gives up about there */
#define TEMPLATE_DEPTH_MAX 256u

_Static_assert(KV_SPLIT_TOKENS % KV_BLOCK_TOKENS == 0, "a split is whole blocks");

#endif
