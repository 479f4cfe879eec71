/* room.c - a library that takes thread-local room of the kind that every thread has from its
 * beginning. */
__attribute__((tls_model("initial-exec"))) __thread char room_here[16];
char *room_of_this_thread(void);
char *room_of_this_thread(void) { return room_here; }
