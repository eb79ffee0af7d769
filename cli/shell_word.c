/* Quoting for a shell. */
#include "shell_word.h"

#include <stdio.h>
#include <string.h>

void shell_print_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'')
            (void)fputs("'\\''", stdout);
        else
            putchar(*text);
    }
    putchar('\'');
}

void shell_print_path(const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+.,:=@%/";
    if (path[strspn(path, plain)] == '\0')
        printf("%s", path);
    else
        shell_print_quoted(path);
}
