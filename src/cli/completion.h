/* completion.h - shell completion scripts, made from the table of commands. Prints on stdout. */
#ifndef MALLOW_CLI_COMPLETION_H
#define MALLOW_CLI_COMPLETION_H

void completion_print_bash(void);
void completion_print_zsh(void);
void completion_print_fish(void);

#endif
