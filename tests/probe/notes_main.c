/* notes_main.c - runs the probes of notes_victim.S; exits with how often their semaphore was used.
 */
int run_notes(void);

int main(void) { return run_notes(); }
