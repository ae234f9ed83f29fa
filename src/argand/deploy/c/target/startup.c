/* Start of a program on a Cortex-M4 with its floating point unit: vectors, memory, semihosting, main. For trying a
 * program in an emulator; on a chip, use its vendor's start-up code. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern uint32_t stack_top, data_source, data_start, data_end, bss_start, bss_end;
extern void initialise_monitor_handles(void); /* newlib: printf and exit through the debugger */
extern int main(void);

void reset(void);
void fault(void);

void reset(void)
{
    int status;
    uint32_t *from = &data_source, *to = &data_start;
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: full access to the floating point unit */
    __asm volatile("dsb\n isb");
    while (to < &data_end)
        *to++ = *from++;
    for (to = &bss_start; to < &bss_end;)
        *to++ = 0;
    initialise_monitor_handles();
    status = main();
    fflush(NULL);
    _Exit(status); /* to the emulator, by semihosting */
}

void fault(void)
{
    _Exit(2);
}

/* stack, reset, NMI, hard fault, and the faults of memory, bus and usage */
__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {&stack_top, {reset, fault, fault, fault, fault, fault}};
