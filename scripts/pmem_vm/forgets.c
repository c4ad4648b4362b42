/* Two stores to a file on persistent memory, in two lines, one after the other: the second one is flushed or, if it is
 * to be forgotten, not. What `scripts/pmem-vm --lossy` must tell apart.
 *
 *   forgets FILE flush | forget     stores, says "stored", and waits for the power cut
 *   forgets FILE read               says what is there */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LEN = 4096, WORDS_OF_LINE = 8 };

static void persist(volatile uint64_t *at) {
    __asm__ volatile("clwb %0; sfence" : "+m"(*at)::"memory");
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    int file = open(arguments[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, LEN)) return 1;
    volatile uint64_t *words =
        mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, file, 0);
    if (words == MAP_FAILED) return 1;
    if (!strcmp(arguments[2], "read")) {
        printf("first %lu second %lu\n", words[0], words[WORDS_OF_LINE]);
        return 0;
    }
    uint64_t next = words[0] + 1;
    words[0] = next;
    persist(&words[0]);
    words[WORDS_OF_LINE] = next;
    if (!strcmp(arguments[2], "flush")) persist(&words[WORDS_OF_LINE]);
    else __asm__ volatile("sfence" ::: "memory");
    printf("stored %lu\n", next);
    fflush(stdout);
    for (;;) pause();
}
