/* The Python program that fetches a model for focal pull. */
#ifndef CLI_PULL_SCRIPT_H
#define CLI_PULL_SCRIPT_H

enum { PULL_SAID = 3 }; /* its exit status when it failed and has said why */

/* Arguments: where the file goes, its hash, a pattern of files in the packages, the packages. */
extern const char *const pull_script;

#endif /* CLI_PULL_SCRIPT_H */
