/* The status codes of vrampool: what a caller can meet, and act on. Stable: numbers are never reused. */
#ifndef VRAMPOOL_STATUS_H
#define VRAMPOOL_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vp_status {
  VP_OK = 0,
  VP_FAILED = 1,          /* anything else; the message says what */
  VP_INVALID = 2,         /* an argument is out of its range */
  VP_NOT_FOUND = 3,       /* no segment, tensor or node of that name */
  VP_EXISTS = 4,          /* that name is taken */
  VP_NO_SPACE = 5,        /* the pool, a node or a file system is full */
  VP_DENIED = 6,          /* wrong key, wrong principal, sealed against writing */
  VP_UNREACHABLE = 7,     /* no daemon here: start it */
  VP_LOST = 8,            /* the bytes lived on a node that is gone */
  VP_TIMEOUT = 9,         /* a deadline passed */
  VP_STALE = 10,          /* the handle names something that was removed or replaced */
  VP_CORRUPT = 11,        /* a checksum or a format did not hold */
  VP_UNSUPPORTED = 12,    /* this system cannot do that; the message says why */
  VP_BUSY = 13,           /* in use; try again or force */
  VP_CANCELLED = 14,      /* the caller or an operator cancelled it */
  VP_NO_COORDINATOR = 15, /* nobody can order changes now: see `vrampool status` */
  VP_RECOVERING = 16,     /* a coordinator is taking over; try again in a moment */
  VP_UNKNOWN_OUTCOME = 17 /* it may or may not have happened */
} vp_status;

#ifdef __cplusplus
}
#endif
#endif
