/* said.h - what mallow-replay says on its standard error that mallow reads. */
#ifndef MALLOW_REPLAY_SAID_H
#define MALLOW_REPLAY_SAID_H

#define REPLAY_SAYS "mallow-replay: "
/* Before the record that a thread was in when a signal ended the process. */
#define REPLAY_WAS_IN REPLAY_SAYS "in "

#endif
