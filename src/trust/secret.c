/* secret.c - Reads a token, password or key from a file of the caller or of root that other
 * users cannot read. The buffers are overwritten before they are freed, and no error text
 * repeats their content. */
#include "trust/secret.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trust/file.h"

/* Not by way of trust_read_whole: what a growing buffer leaves behind is not overwritten. */
static char *read_secret_line(int fd, const char *path, const char *what, struct error *err)
{
    char *text = calloc(1, TRUST_SECRET_BYTES + 2);
    if (!text) {
        error_memory(err);
        return NULL;
    }
    const size_t bytes = trust_read(fd, text, TRUST_SECRET_BYTES + 1, 0);
    const size_t length = strcspn(text, "\r\n");
    const char *wrong = NULL;
    if (bytes > TRUST_SECRET_BYTES)
        wrong = "is longer than 4096 bytes";
    else if (!length)
        wrong = "has nothing in its first line";
    for (size_t i = 0; i < length && !wrong; i++)
        if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] > '~')
            wrong = "has a character that is not printable ASCII";
    if (!wrong) {
        text[length] = 0;
        return text;
    }
    explicit_bzero(text, bytes);
    free(text);
    error_set(err, ERROR_USAGE, "%s %s %s", what, path, wrong);
    return NULL;
}

/* A file whose content may be a secret: of the caller or root, and others cannot read it. */
static int open_secret(const char *path, const char *what, struct error *err)
{
    const struct trust_rule rule = {
        .what = what, .owners = TRUST_CALLER | TRUST_ROOT, .follow = true};
    struct stat st;
    const int fd = trust_open(AT_FDCWD, path, TRUST_READ, &rule, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st))
        error_system(err, "cannot look at %s", path);
    else if (st.st_mode & (S_IRWXO | S_IWGRP))
        error_set(err, ERROR_UNSUPPORTED,
                  "%s %s can be read or changed by other users (mode %04o); 'chmod 600' it", what,
                  path, (unsigned)st.st_mode & 07777u);
    else
        return fd;
    close(fd);
    return -1;
}

char *trust_secret(const char *path, const char *what, struct error *err)
{
    const int fd = open_secret(path, what, err);
    if (fd < 0)
        return NULL;
    char *secret = read_secret_line(fd, path, what, err);
    close(fd);
    return secret;
}

char *trust_secret_text(const char *path, const char *what, struct error *err)
{
    const int fd = open_secret(path, what, err);
    char *text = fd < 0 ? NULL : calloc(1, TRUST_SECRET_TEXT_BYTES + 2);
    if (fd < 0)
        return NULL;
    if (!text) {
        error_memory(err);
    } else if (trust_read(fd, text, TRUST_SECRET_TEXT_BYTES + 1, 0) > TRUST_SECRET_TEXT_BYTES) {
        error_set(err, ERROR_USAGE, "%s %s is longer than %u bytes", what, path,
                  TRUST_SECRET_TEXT_BYTES);
        explicit_bzero(text, TRUST_SECRET_TEXT_BYTES + 2);
        free(text);
        text = NULL;
    }
    close(fd);
    return text;
}

void trust_secret_free(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}
