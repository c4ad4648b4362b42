/* A plugin of QEMU's emulator: the cache of a processor that loses it with the power.
 *
 * The emulated processor has no cache: what a guest stores to an NVDIMM is in its image at once. This plugin keeps
 * a second image, the durable one, to which bytes come as the instructions promise it, and no sooner:
 *
 *   CLWB, CLFLUSHOPT, CLFLUSH       the line, as it is then, at the next fence
 *   MOVNTI, MOVNTDQ, MOVNTPS, ...   what is stored, at the next fence
 *   SFENCE, MFENCE, LOCK            the fence
 *   WBINVD                          everything
 *
 * All else is lost when QEMU is killed and the next boot begins with the durable image. A real cache writes some lines
 * back by itself; this one never does, so whatever is not asked for is missing.
 *
 *   -plugin cache.so,image=FILE,durable=FILE,base=ADDRESS
 *
 * `image` is what the NVDIMM is mapped from, `durable` a copy of it, `base` the device's physical address. One
 * processor, 64-bit code. The guest's kernel is to be started with `nokaslr no5lvl nopti`: addresses of flushes are
 * looked up in its page tables, by way of its map of all memory.
 *
 * The declarations are those of QEMU 9.2 to 10 that are used here: Debian packages no header. */

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
typedef struct { uint8_t *data; unsigned len; } byte_array;      /* GByteArray */
typedef struct { char *data; unsigned len; } array;              /* GArray */
typedef struct { void *handle; const char *name, *feature; } register_descriptor;
typedef struct {
    const char *target_name;
    struct { int min, cur; } version;
    bool system_emulation;
    struct { int smp_vcpus, max_vcpus; } system;
} info;
enum { NO_REGISTERS, READS_REGISTERS };
enum { WRITES = 2 };

typedef void (*vcpu_callback)(plugin_id, unsigned);
typedef void (*exec_callback)(unsigned, void *);
typedef void (*memory_callback)(unsigned, uint32_t, uint64_t, void *);
typedef void (*block_callback)(plugin_id, void *);
void qemu_plugin_register_vcpu_init_cb(plugin_id, vcpu_callback);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, block_callback);
size_t qemu_plugin_tb_n_insns(const void *);
void *qemu_plugin_tb_get_insn(const void *, size_t);
size_t qemu_plugin_insn_data(const void *, void *, size_t);
uint64_t qemu_plugin_insn_vaddr(const void *);
size_t qemu_plugin_insn_size(const void *);
void qemu_plugin_register_vcpu_insn_exec_cb(void *, exec_callback, int, void *);
void qemu_plugin_register_vcpu_mem_cb(void *, memory_callback, int, int, void *);
void *qemu_plugin_get_hwaddr(uint32_t, uint64_t);
uint64_t qemu_plugin_hwaddr_phys_addr(const void *);
bool qemu_plugin_hwaddr_is_io(const void *);
unsigned qemu_plugin_mem_size_shift(uint32_t);
array *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(void *, byte_array *);
bool qemu_plugin_read_memory_vaddr(uint64_t, byte_array *, size_t);
byte_array *g_byte_array_new(void);
byte_array *g_byte_array_set_size(byte_array *, unsigned);

EXPORT int qemu_plugin_version = 4;

enum { LINE = 64, INSTRUCTION_MAX = 15 };
/* Where Linux has all physical memory, without KASLR and with page tables of four levels. */
static const uint64_t ALL_MEMORY = 0xffff888000000000;

static uint8_t *image, *durable;
static uint64_t base, size;

/* Bytes that are durable at the next fence. */
struct pending { uint64_t at; uint8_t len, bytes[LINE]; };
static struct pending *pending;
static size_t pending_len, pending_max;

static void die(const char *what) {
    fprintf(stderr, "cache: %s\n", what);
    _exit(1);
}

static void remember(uint64_t at, size_t len) {
    if (pending_len == pending_max) {
        pending_max = pending_max ? 2 * pending_max : 1024;
        pending = realloc(pending, pending_max * sizeof *pending);
        if (!pending) die("no memory");
    }
    struct pending *next = &pending[pending_len++];
    next->at = at;
    next->len = len;
    memcpy(next->bytes, image + at, len);
}

static void fence(unsigned vcpu, void *unused) {
    (void)vcpu, (void)unused;
    for (size_t i = 0; i < pending_len; i++)
        memcpy(durable + pending[i].at, pending[i].bytes, pending[i].len);
    pending_len = 0;
}

static void write_all_back(unsigned vcpu, void *unused) {
    (void)vcpu, (void)unused;
    memcpy(durable, image, size);
    pending_len = 0;
}

/* A store past the cache. */
static void streamed(unsigned vcpu, uint32_t access, uint64_t address, void *unused) {
    (void)vcpu, (void)unused;
    void *place = qemu_plugin_get_hwaddr(access, address);
    if (!place || qemu_plugin_hwaddr_is_io(place)) return;
    uint64_t at = qemu_plugin_hwaddr_phys_addr(place) - base;
    uint64_t len = 1u << qemu_plugin_mem_size_shift(access);
    if (at < size && len <= LINE && len <= size - at) remember(at, len);
}

/* Registers, in the order of their numbers in instructions; then those of segments, and the page tables. */
enum { RIP = 16, FS_BASE, GS_BASE, CR3, REGISTERS };
static const char *const NAMES[REGISTERS] = {
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "rip", "fs_base", "gs_base", "cr3",
};
static void *handles[REGISTERS];
static byte_array *buffer;

static void find_registers(plugin_id id, unsigned vcpu) {
    (void)id;
    if (vcpu) die("more than one processor");
    buffer = g_byte_array_new();
    array *found = qemu_plugin_get_registers();
    register_descriptor *all = (register_descriptor *)found->data;
    for (unsigned i = 0; i < found->len; i++)
        for (unsigned j = 0; j < REGISTERS; j++)
            if (!strcmp(all[i].name, NAMES[j])) handles[j] = all[i].handle;
    for (unsigned j = 0; j < REGISTERS; j++)
        if (!handles[j]) die(NAMES[j]);
}

static uint64_t value_of(unsigned number) {
    uint64_t value = 0;
    g_byte_array_set_size(buffer, 0);
    int len = qemu_plugin_read_register(handles[number], buffer);
    if (len <= 0) die("a register cannot be read");
    memcpy(&value, buffer->data, len < 8 ? len : 8);
    return value;
}

/* The physical address of a virtual one, from the guest's page tables. */
static bool translate(uint64_t address, uint64_t *physical) {
    uint64_t table = value_of(CR3);
    for (int shift = 39; shift >= 12; shift -= 9) {
        uint64_t entry_at = (table & 0xffffffffff000) + (address >> shift & 511) * 8, entry;
        g_byte_array_set_size(buffer, 0);
        if (!qemu_plugin_read_memory_vaddr(ALL_MEMORY + entry_at, buffer, 8)) return false;
        memcpy(&entry, buffer->data, 8);
        if (!(entry & 1)) return false;
        if (shift == 12 || (shift < 39 && entry & 0x80)) {
            uint64_t inside = (UINT64_C(1) << shift) - 1;
            *physical = (entry & 0xffffffffff000 & ~inside) | (address & inside);
            return true;
        }
        table = entry;
    }
    return false;
}

/* A decoded instruction: what it is, and how its address is made. */
enum kind { OTHER, FENCE, ALL, FLUSH, STREAM };
struct decoded {
    int base, index, scale, segment; /* registers; -1: none */
    int64_t offset;                  /* with the next instruction's address, where it is relative to that */
};

static void flush(unsigned vcpu, void *data) {
    (void)vcpu;
    struct decoded *decoded = data;
    uint64_t address = decoded->offset, physical;
    if (decoded->base >= 0) address += value_of(decoded->base);
    if (decoded->index >= 0) address += value_of(decoded->index) << decoded->scale;
    if (decoded->segment >= 0) address += value_of(decoded->segment);
    if (!translate(address, &physical)) return;
    uint64_t at = physical - base & ~(uint64_t)(LINE - 1);
    if (at < size) remember(at, LINE);
}

static enum kind decode(const uint8_t *code, size_t len, uint64_t next, struct decoded *to) {
    size_t at = 0;
    bool is_locked = false;
    int rex = 0;
    to->segment = to->base = to->index = -1;
    for (; at < len; at++) {
        uint8_t byte = code[at];
        if (byte == 0xf0) is_locked = true;
        else if (byte == 0x64) to->segment = FS_BASE;
        else if (byte == 0x65) to->segment = GS_BASE;
        else if (byte != 0x66 && byte != 0x67 && byte != 0xf2 && byte != 0xf3 && byte != 0x2e &&
                 byte != 0x36 && byte != 0x3e && byte != 0x26)
            break;
    }
    if (is_locked) return FENCE;
    if (at < len && (code[at] & 0xf0) == 0x40) rex = code[at++];
    if (at + 2 < len && code[at] == 0xc5)
        return code[at + 2] == 0xe7 || code[at + 2] == 0x2b ? STREAM : OTHER;
    if (at + 3 < len && code[at] == 0xc4)
        return (code[at + 1] & 31) == 1 && (code[at + 3] == 0xe7 || code[at + 3] == 0x2b) ? STREAM
                                                                                         : OTHER;
    if (at + 1 >= len || code[at] != 0x0f) return OTHER;
    uint8_t opcode = code[at + 1];
    at += 2;
    if (opcode == 0xc3 || opcode == 0xe7 || opcode == 0x2b) return STREAM;
    if (opcode == 0x09) return ALL;
    if (opcode != 0xae || at >= len) return OTHER;
    uint8_t modrm = code[at++];
    int mode = modrm >> 6, operation = modrm >> 3 & 7, rm = modrm & 7;
    if (mode == 3) return operation >= 6 ? FENCE : OTHER; /* MFENCE, SFENCE */
    /* CLWB is XSAVEOPT with a prefix. */
    bool has_prefix = memchr(code, 0x66, at - 3) != NULL;
    if (!(operation == 7 || (operation == 6 && has_prefix))) return OTHER;
    to->offset = 0;
    if (rm == 4 && at < len) {
        uint8_t sib = code[at++];
        int index = (sib >> 3 & 7) | (rex & 2 ? 8 : 0);
        to->scale = sib >> 6;
        to->index = index == 4 ? -1 : index;
        rm = sib & 7;
        if (mode == 0 && rm == 5) mode = 2;
        else to->base = rm | (rex & 1 ? 8 : 0);
    } else if (mode == 0 && rm == 5) {
        to->offset = next;
        mode = 2;
    } else {
        to->base = rm | (rex & 1 ? 8 : 0);
    }
    if (mode == 1 && at < len) to->offset += (int8_t)code[at];
    if (mode == 2 && at + 4 <= len) {
        int32_t offset;
        memcpy(&offset, code + at, 4);
        to->offset += offset;
    }
    return FLUSH;
}

static void translated(plugin_id id, void *block) {
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
        void *instruction = qemu_plugin_tb_get_insn(block, i);
        uint8_t code[INSTRUCTION_MAX];
        size_t len = qemu_plugin_insn_data(instruction, code, sizeof code);
        struct decoded decoded;
        uint64_t next = qemu_plugin_insn_vaddr(instruction) + qemu_plugin_insn_size(instruction);
        switch (decode(code, len, next, &decoded)) {
        case OTHER: break;
        case FENCE:
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, fence, NO_REGISTERS, NULL);
            break;
        case ALL:
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, write_all_back, NO_REGISTERS, NULL);
            break;
        case STREAM:
            qemu_plugin_register_vcpu_mem_cb(instruction, streamed, NO_REGISTERS, WRITES, NULL);
            break;
        case FLUSH: {
            /* QEMU translates a block again now and then, and says not when it drops one: these are few. */
            struct decoded *kept = malloc(sizeof *kept);
            if (!kept) die("no memory");
            *kept = decoded;
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, flush, READS_REGISTERS, kept);
        }
        }
    }
}

static void *map(const char *path, int protection, uint64_t *len) {
    int file = open(path, protection & PROT_WRITE ? O_RDWR : O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status)) die(path);
    void *mapped = mmap(NULL, status.st_size, protection, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED) die(path);
    *len = status.st_size;
    return mapped;
}

EXPORT int qemu_plugin_install(plugin_id id, const info *about, int count, char **arguments) {
    uint64_t durable_len = 0;
    if (strcmp(about->target_name, "x86_64")) die("for x86-64 only");
    for (int i = 0; i < count; i++) {
        if (!strncmp(arguments[i], "image=", 6)) image = map(arguments[i] + 6, PROT_READ, &size);
        else if (!strncmp(arguments[i], "durable=", 8))
            durable = map(arguments[i] + 8, PROT_READ | PROT_WRITE, &durable_len);
        else if (!strncmp(arguments[i], "base=", 5)) base = strtoull(arguments[i] + 5, NULL, 0);
        else die(arguments[i]);
    }
    if (!image || !durable || !base || size != durable_len) die("two images of one length, and base");
    qemu_plugin_register_vcpu_init_cb(id, find_registers);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
