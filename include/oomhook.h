/* Tell oomhook of the phases of a program. Without oomhook the calls do nothing: the functions are weak, and are there only if
 * liboomhook.so was preloaded. C and C++; nothing to link.
 *
 *     oomhook_push("load");  ...  oomhook_pop();       a range, in the calling thread, nested as you like
 *     oomhook_mark("request");                         a round ends here: what each one leaves behind is in the report
 *     oomhook_report();                                a report now; the process goes on
 *
 * Programs that use NVTX need none of this: its ranges and marks are seen.
 */
#ifndef OOMHOOK_H
#define OOMHOOK_H

#ifdef __cplusplus
extern "C" {
#endif

#define OOMHOOK_WEAK __attribute__((weak))

OOMHOOK_WEAK void oomhook_mark_(const char *name) __asm__("oomhook_mark");
OOMHOOK_WEAK void oomhook_push_(const char *name) __asm__("oomhook_push");
OOMHOOK_WEAK void oomhook_pop_(void) __asm__("oomhook_pop");
OOMHOOK_WEAK void oomhook_report_(void) __asm__("oomhook_report");

/* The name of a range or of a mark: a string that ends with NUL; it is not kept. Numbers in it tell instances of one phase apart
 * ("step 17"). */
static inline void oomhook_mark(const char *name) {
    if (oomhook_mark_) oomhook_mark_(name);
}

static inline void oomhook_push(const char *name) {
    if (oomhook_push_) oomhook_push_(name);
}

static inline void oomhook_pop(void) {
    if (oomhook_pop_) oomhook_pop_();
}

/* Written where OOMHOOK_REPORT says, or to stderr. */
static inline void oomhook_report(void) {
    if (oomhook_report_) oomhook_report_();
}

#ifdef __cplusplus
}
#endif

#endif
