/* Words of commands that the program offers, as a shell must be given them. */
#ifndef CLI_SHELL_WORD_H
#define CLI_SHELL_WORD_H

/* To stdout: a text in quotes, and a path, in quotes where a shell would read anything else in
 * it. */
void shell_print_quoted(const char *text);
void shell_print_path(const char *path);

#endif /* CLI_SHELL_WORD_H */
