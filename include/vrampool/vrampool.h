/* The C interface of vrampool: named memory of several machines as one pool, mapped as ordinary memory.
 *
 * Rules that hold for every function, unless its own text says otherwise
 *   Threads:   any thread, any number at once. Closing a handle that another thread uses is safe: that
 *              thread's call ends normally or with VP_CANCELLED.
 *   Errors:    returned as vp_status; vp_last_error() holds one line for a person about the calling thread's
 *              last failed call. Outputs are written only when VP_OK is returned. Nothing throws.
 *   Handles:   small integers, checked on each use. 0, a closed handle or one of another kind is VP_INVALID.
 *   Blocking:  calls that ask the daemon block until it answers, at most `call_deadline_ms` (VP_TIMEOUT); reads and
 *              writes as long as bytes keep coming within it.
 *              While the daemon restarts they wait for it within the same deadline (then VP_UNREACHABLE).
 *   Units:     bytes and milliseconds; a page is VP_PAGE_BYTES. Ranges are [offset, offset + bytes).
 *   Strings:   UTF-8, ended by 0; borrowed for the call only.
 *   fork():    a child must not use its parent's session: every call answers VP_STALE until the child has
 *              called vp_after_fork(). Mapped views do not exist in the child.
 *
 * The ABI is stable: functions and fields are only added. Structs that may grow start with `struct_size`, which the
 * caller sets to sizeof; VP_INIT(type) does that and zeroes the rest, and zero always means the default. */
#ifndef VRAMPOOL_VRAMPOOL_H
#define VRAMPOOL_VRAMPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "vrampool/status.h"

#if defined(__GNUC__)
#define VP_API __attribute__((visibility("default")))
#else
#define VP_API
#endif

#ifdef __cplusplus
#define VP_INIT(type)                    \
  ([] {                                  \
    type vp_init_{};                     \
    vp_init_.struct_size = sizeof(type); \
    return vp_init_;                     \
  }())
extern "C" {
#else
#define VP_INIT(type) ((type){.struct_size = sizeof(type)})
#endif

#define VP_PAGE_BYTES 16384u
#define VP_NAME_BYTES 256u /* longest name, its ending 0 included */
#define VP_DIMENSIONS_MAX 8u

/* Handles. `{0}` is never valid. */
typedef struct vp_session {
  uint64_t id;
} vp_session; /* a connection to this machine's daemon */
typedef struct vp_segment {
  uint64_t id;
} vp_segment; /* one named object; names one version of it, for good */
typedef struct vp_view {
  uint64_t id;
} vp_view; /* mapped memory */
typedef struct vp_token {
  uint64_t id;
} vp_token; /* an asynchronous operation */

/* ---- library ---- */

/* "0.1.0". Static storage. */
VP_API const char* vp_version(void);
/* A short fixed phrase for a status: "not found". Static storage; never NULL. */
VP_API const char* vp_strstatus(vp_status status);
/* Why the calling thread's last failed call failed: what, to what, what to do. Never NULL; "" if none failed yet.
 * Ownership: the library's; valid until the thread's next vp_ call. */
VP_API const char* vp_last_error(void);

/* ---- session ---- */

/* What happened to mapped memory; see vp_set_error_callback. */
typedef struct vp_loss {
  uint32_t struct_size;
  vp_status status; /* VP_LOST, VP_UNREACHABLE, VP_CORRUPT; VP_OK: these bytes can be read again */
  vp_view view;
  uint64_t offset; /* first byte concerned, in the segment */
  uint64_t bytes;
  const char* message; /* borrowed for the call */
} vp_loss;

/* Threads: runs on a thread of the library that does nothing else, one event at a time; it may call any vp_ function
 * and touch mapped memory, but vp_disconnect() of its own session is refused with VP_BUSY.
 * Events beyond 256 waiting ones are dropped; vp_map_status() never forgets. */
typedef void (*vp_error_callback)(const vp_loss* loss, void* user);

typedef struct vp_connect_options {
  uint32_t struct_size;
  int32_t call_deadline_ms;  /* 0: 15000 */
  int32_t fault_deadline_ms; /* how long a touch waits for a dead daemon; 0: what the daemon says, normally 10000 */
  const char* socket_path;   /* NULL: $VRAMPOOL_SOCKET, /run/vrampool/vrampoold.sock, then
                                $XDG_RUNTIME_DIR/vrampool/vrampoold.sock, ~/.vrampool/vrampoold.sock */
  const char* program;       /* shown to the operator; NULL: the program's own name */
} vp_connect_options;

/* Connects to this machine's daemon. `options` may be NULL.
 * Errors: VP_UNREACHABLE (no daemon: the text says where it was looked for and how to start one), VP_DENIED,
 * VP_NOT_FOUND (this machine is in no pool), VP_UNSUPPORTED (the daemon speaks no common version), VP_NO_SPACE (64
 * sessions are open). */
VP_API vp_status vp_connect(const vp_connect_options* options, vp_session* session);
/* Unmaps every view, fails operations in flight with VP_CANCELLED, drops segments being created, closes all handles.
 * Errors: VP_BUSY from one of the session's own callbacks. */
VP_API vp_status vp_disconnect(vp_session session);
/* In a forked child: leaves the parent's connection alone and makes one of the child's own under the same handle.
 * Segments, views and tokens of the parent stay VP_STALE. In the parent: does nothing.
 * Threads: while no other thread of the child uses the session. */
VP_API vp_status vp_after_fork(vp_session session);
/* Called when mapped memory is lost or comes back; NULL ends it (a call under way may still end after this returns).
 * One per session. */
VP_API vp_status vp_set_error_callback(vp_session session, vp_error_callback callback, void* user);

typedef struct vp_session_info {
  uint32_t struct_size;
  uint32_t connected;         /* 0 while the daemon is away */
  uint32_t member;            /* this node's number in the pool */
  uint32_t fault_deadline_ms; /* in force */
  uint64_t reconnects;        /* since vp_connect */
  uint64_t pages_lost;        /* pages that this library poisoned because no daemon came back */
  char pool[64];
  char fault_source[64]; /* "userfaultfd", "posix" */
} vp_session_info;
/* Blocking: never. */
VP_API vp_status vp_session_status(vp_session session, vp_session_info* info);

/* ---- segments and their tensors ---- */

/* Numbers are stable. VP_QUANTIZED: block formats, `type_name` says which. */
typedef enum vp_dtype {
  VP_UNKNOWN_DTYPE = 0,
  VP_F64 = 1,
  VP_F32 = 2,
  VP_F16 = 3,
  VP_BF16 = 4,
  VP_F8_E4M3 = 5,
  VP_F8_E5M2 = 6,
  VP_I64 = 7,
  VP_I32 = 8,
  VP_I16 = 9,
  VP_I8 = 10,
  VP_U64 = 11,
  VP_U32 = 12,
  VP_U16 = 13,
  VP_U8 = 14,
  VP_BOOLEAN = 15,
  VP_QUANTIZED = 16
} vp_dtype;

typedef struct vp_tensor {
  uint32_t struct_size;
  vp_dtype dtype;
  uint32_t rank;
  uint32_t reserved;
  uint64_t shape[VP_DIMENSIONS_MAX]; /* outermost first */
  uint64_t offset;                   /* in the segment */
  uint64_t bytes;
  char name[VP_NAME_BYTES];
  char type_name[32]; /* the format's own word: "BF16", "Q4_K" */
} vp_tensor;

typedef enum vp_layout {
  VP_LAYOUT_ALIGNED = 0, /* every tensor starts on a page */
  VP_LAYOUT_FILE = 1     /* the file's own image */
} vp_layout;

typedef enum vp_segment_state { VP_CREATING = 0, VP_SEALED = 1, VP_COHERENT = 2 } vp_segment_state;

typedef struct vp_segment_info {
  uint32_t struct_size;
  vp_segment_state state;
  vp_layout layout;
  uint32_t pieces;                       /* parts on nodes, replicas included */
  uint64_t id_member, id_life, id_count; /* the SegmentId, never used twice */
  uint64_t address;                      /* pool address of byte 0 */
  uint64_t bytes;                        /* whole pages */
  uint64_t tensors;
  char name[VP_NAME_BYTES];
  char format[32]; /* "safetensors", "gguf", "raw" */
} vp_segment_info;

/* Opens a segment by name. The handle stays with the version that had the name now: if it is removed, even if another
 * takes its name, calls that need the daemon answer VP_STALE; existing views stay readable.
 * Errors: VP_NOT_FOUND, VP_DENIED. */
VP_API vp_status vp_open(vp_session session, const char* name, vp_segment* segment);
/* Lets go of it. A segment being created is dropped, as vp_abort does. Views stay mapped. */
VP_API vp_status vp_close(vp_segment segment);
/* Blocking: never; the record as it was opened. */
VP_API vp_status vp_segment_status(vp_segment segment, vp_segment_info* info);
/* Tensor `index` of [0, info.tensors), in the order of the file. Blocking: never. Errors: VP_INVALID. */
VP_API vp_status vp_tensor_at(vp_segment segment, uint64_t index, vp_tensor* tensor);
/* Blocking: never. Errors: VP_NOT_FOUND. */
VP_API vp_status vp_tensor_find(vp_segment segment, const char* name, vp_tensor* tensor);

typedef struct vp_create_options {
  uint32_t struct_size;
  uint32_t mode;            /* permission bits; 0: 0644 */
  uint64_t bytes;           /* > 0; rounded up to whole pages */
  const char* placement;    /* "local", "spread", "pack", "nodes"; NULL: "spread" */
  const char* const* nodes; /* for "nodes" */
  uint32_t node_count;
  uint32_t copies;          /* 0: 1 */
  const vp_tensor* tensors; /* may be NULL; offsets and sizes inside [0, bytes) */
  uint64_t tensor_count;
} vp_create_options;

/* Reserves a name and memory for a new sealed segment. Others see nothing until vp_seal. If the name exists, sealing
 * swaps it: new readers get the new one, old readers keep theirs.
 * Errors: VP_INVALID, VP_EXISTS (somebody else creates it now), VP_NO_SPACE, VP_DENIED, VP_NO_COORDINATOR. */
VP_API vp_status vp_create(vp_session session, const char* name, const vp_create_options* options, vp_segment* segment);
/* Finishes it: from now on it never changes. Bytes never written are 0. Blocking: until every host has frozen its part.
 * Errors: VP_UNKNOWN_OUTCOME (the daemon went away meanwhile: open it to see). */
VP_API vp_status vp_seal(vp_segment segment);
/* Drops a segment that is being created and closes the handle. Errors: VP_DENIED when it is sealed. */
VP_API vp_status vp_abort(vp_segment segment);
/* Removes a name. Existing views keep their bytes. `force` removes it although someone maps it.
 * Errors: VP_NOT_FOUND, VP_BUSY, VP_DENIED, VP_NO_COORDINATOR. */
VP_API vp_status vp_remove(vp_session session, const char* name, int force);
VP_API vp_status vp_rename(vp_session session, const char* from, const char* to);

/* ---- explicit reads and writes ---- */

/* Copies bytes of a segment into `buffer`, wherever they live. No mapping is involved.
 * Errors: VP_INVALID (range), VP_LOST, VP_CORRUPT, VP_TIMEOUT, VP_STALE. On failure `buffer` holds anything. */
VP_API vp_status vp_read(vp_segment segment, uint64_t offset, void* buffer, uint64_t bytes);
/* Writes into a segment that is being created. Whole pages leave at once; the pieces of a page written in parts are
 * gathered here until it is complete (or sealed: the rest is 0), at most 64 such pages at a time. A page that has
 * left can only be written again as a whole.
 * Errors: VP_DENIED (sealed), VP_INVALID (range, part of a page that has left), VP_BUSY (64 pages are incomplete). */
VP_API vp_status vp_write(vp_segment segment, uint64_t offset, const void* buffer, uint64_t bytes);
/* The same by pool address. The segment at that address must be open in this session (VP_NOT_FOUND). */
VP_API vp_status vp_read_address(vp_session session, uint64_t address, void* buffer, uint64_t bytes);
VP_API vp_status vp_write_address(vp_session session, uint64_t address, const void* buffer, uint64_t bytes);

/* Runs once when an asynchronous operation ends.
 * Threads: a thread of the library, or one that is blocked in a vp_ call; must be short. It may start further
 * asynchronous reads; calls that block (vp_read, vp_wait, vp_map, ...) answer VP_BUSY there. */
typedef void (*vp_completion)(vp_status status, void* user);

/* Starts a read and returns. `buffer` belongs to the library until the operation ends.
 * With `completion`, it runs at the end; `token` may then be NULL. With a token, vp_wait must be called once.
 * Blocking: only while 16 MiB or 64 small reads are in flight on this session.
 * Errors: as vp_read, here or at the end; from a completion VP_BUSY instead of blocking. */
VP_API vp_status vp_read_async(vp_segment segment, uint64_t offset, void* buffer, uint64_t bytes,
                               vp_completion completion, void* user, vp_token* token);
/* The same for writing whole pages (offset and bytes are multiples of VP_PAGE_BYTES). */
VP_API vp_status vp_write_async(vp_segment segment, uint64_t offset, const void* buffer, uint64_t bytes,
                                vp_completion completion, void* user, vp_token* token);
/* Waits for the end, at most `timeout_ms` (0: only looks; < 0: the operation's own deadline). Returns its status and
 * frees the token; VP_TIMEOUT while it still runs (the token stays). */
VP_API vp_status vp_wait(vp_token token, int32_t timeout_ms);

/* ---- mapping ---- */

enum vp_map_flags {
  VP_MAP_RESIDENT = 0, /* the default: everything present, contiguous and page-aligned before vp_map returns */
  VP_MAP_LAZY = 1      /* returns at once; the first touch of a page fetches it. CPU loads only: give no such pointer
                          to a GPU, and no page that may be missing to O_DIRECT or io_uring fixed buffers */
};

/* What a touch of a page does that cannot be had. */
typedef enum vp_on_loss {
  VP_ON_LOSS_POISON = 0, /* reads 0xFF (NaN in every float format); vp_map_status says VP_LOST from then on */
  VP_ON_LOSS_WAIT = 1,   /* waits until it can be had */
  VP_ON_LOSS_ABORT = 2   /* ends the process with one line on stderr */
} vp_on_loss;

typedef struct vp_map_options {
  uint32_t struct_size;
  uint32_t flags; /* vp_map_flags */
  vp_on_loss on_loss;
  int32_t deadline_ms;        /* of a resident map; 0: none, as long as the daemon lives */
  uint64_t offset;            /* the range; used when tensor_count is 0 */
  uint64_t bytes;             /* 0: to the end */
  const char* const* tensors; /* names; every one gets its own range */
  uint64_t tensor_count;
} vp_map_options;

typedef struct vp_range {
  const void* data; /* readable, never writable */
  uint64_t bytes;   /* exactly what was asked for */
} vp_range;

/* Maps a segment, a range, a tensor or a list of tensors of a sealed segment. `options` may be NULL: all of it,
 * resident. `ranges` receives max(1, tensor_count) entries, in the order asked. Pointers stay valid until vp_unmap,
 * even when the segment is removed, the handle closed or the daemon restarted. Never mremap, munmap or madvise them.
 * Errors: VP_NOT_FOUND (a tensor), VP_INVALID (range), VP_BUSY (not sealed yet), VP_STALE, VP_LOST (resident),
 * VP_UNSUPPORTED (no fault source for a lazy view: the text says why), VP_NO_SPACE. */
VP_API vp_status vp_map(vp_segment segment, const vp_map_options* options, vp_view* view, vp_range* ranges);
/* No thread may touch the memory any more. */
VP_API vp_status vp_unmap(vp_view view);

typedef struct vp_view_info {
  uint32_t struct_size;
  vp_status status;    /* sticky: the first loss that this view met; VP_OK if none */
  uint64_t first_lost; /* offset in the segment */
  uint64_t losses;     /* events so far */
  uint64_t pages_lost; /* pages that were poisoned, healed ones included */
  uint32_t healed;     /* 1: everything lost could be had again since; compute once more */
  uint32_t lazy;
  uint64_t bytes;
  char message[256];
} vp_view_info;
/* Blocking: never. To be asked after a computation whose result matters. */
VP_API vp_status vp_map_status(vp_view view, vp_view_info* info);

/* ---- caching ---- */

/* Brings a range into this node's cache. `wait` 0: returns at once, as a hint that may be dropped; 1: when it is there.
 */
VP_API vp_status vp_prefetch(vp_segment segment, uint64_t offset, uint64_t bytes, int wait);
/* Brings a range here and keeps it until vp_unpin, vp_close or the session's end. Errors: VP_NO_SPACE. */
VP_API vp_status vp_pin(vp_segment segment, uint64_t offset, uint64_t bytes);
VP_API vp_status vp_unpin(vp_segment segment, uint64_t offset, uint64_t bytes);

typedef struct vp_range_info { /* Units: pages */
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t pages, local, cached, remote, lost, pinned;
} vp_range_info;
VP_API vp_status vp_range_status(vp_segment segment, uint64_t offset, uint64_t bytes, vp_range_info* info);

#ifdef __cplusplus
}
#endif
#endif
