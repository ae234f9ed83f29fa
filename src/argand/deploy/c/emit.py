"""The text of the three files."""

import textwrap
from collections.abc import Sequence

from torch import Tensor

from argand.deploy.c.buffers import Plan, pointer
from argand.deploy.c.kernels import in_order
from argand.deploy.c.program import PER_LINE, Call, Program, literal
from argand.field import real_view

#: columns of a call in C
WIDTH = 112

_SOURCE = """\
/* A network in C99, written by argand. net.h says what goes in and out.
 * No memory is allocated, nothing is printed, and no global is written. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

typedef char net_int_has_32_bits[sizeof(int) >= 4 ? 1 : -1];

void net_run(const float *input, float *output, float *scratch);

{kernels}

{tables}

void net_run(const float *input, float *output, float *scratch)
{{
{body}
}}
"""

_HEADER = """\
/* A network in C99, written by argand.
 *
 * net_run reads NET_INPUT_FLOATS floats, writes NET_OUTPUT_FLOATS, and works in NET_SCRATCH_FLOATS; the three areas
 * must not overlap. Arrays are row-major and without a batch axis; a complex number is two floats, re and im.
 *
{interface}
 */
#ifndef NET_H
#define NET_H

#define NET_INPUT_FLOATS {inputs}
#define NET_OUTPUT_FLOATS {outputs}
#define NET_SCRATCH_FLOATS {scratch}
/* bytes of the constant tables: weights, their columns, scales, biases, geometry */
#define NET_FLASH_BYTES {flash}
/* real multiply-accumulates with weights and in products; additions of pooling and activations don't count */
#define NET_MACS {macs}

#ifdef __cplusplus
extern "C" {{
#endif

void net_run(const float *input, float *output, float *scratch);

#ifdef __cplusplus
}}
#endif

#endif
"""

_SELFTEST = """\
/* Runs the network on inputs whose outputs are known, from PyTorch in double precision with the weights as stored.
 * Prints the outputs of the first one and the largest error. Returns 0 if the error is allowed, else 1. */
#include <math.h>
#include <stdio.h>

#include "net.h"

#define COUNT {count}
#define ALLOWED {allowed}

static const float inputs[COUNT][NET_INPUT_FLOATS] = {{
{inputs}
}};

static const float expected[COUNT][NET_OUTPUT_FLOATS] = {{
{expected}
}};

static float output[NET_OUTPUT_FLOATS];
static float scratch[NET_SCRATCH_FLOATS];

int main(void)
{{
    float error = 0.0f, largest = 0.0f;
    int i, k;
    for (k = 0; k < COUNT; k++) {{
        net_run(inputs[k], output, scratch);
        for (i = 0; i < NET_OUTPUT_FLOATS; i++) {{
            const float difference = fabsf(output[i] - expected[k][i]);
            if (!(difference <= error))
                error = difference;
            if (fabsf(expected[k][i]) > largest)
                largest = fabsf(expected[k][i]);
            if (k == 0)
                printf("%.9g\\n", (double)output[i]);
        }}
        if (error != error)
            break;
    }}
    if (largest > 0.0f)
        error /= largest;
    printf("largest error %.3g of the largest output, allowed %.3g\\n", (double)error, (double)ALLOWED);
    return error <= ALLOWED ? 0 : 1;
}}
"""


def source(program: Program, plan: Plan) -> str:
    """net.c."""
    kernels = "\n\n".join(kernel.source for kernel in in_order(program.kernels()))
    tables = "\n\n".join(table.definition for table in program.tables.values())
    parts = {"kernels": kernels, "tables": tables}
    text = _SOURCE.format(body=_body(program, plan), **{key: f"\0{key}\0" for key in parts})
    for key, part in parts.items():
        text = text.replace(f"\0{key}\0\n\n", part + "\n\n" if part else "")
    return text


def header(program: Program, plan: Plan) -> str:
    """net.h."""
    lines = []
    for area, names in (("input", program.inputs), ("output", program.outputs)):
        offset = 0
        for number, name in enumerate(names):
            value = program.values[name]
            lines.append(
                f" * {pointer(area, offset)}: {area} {number + 1} of {len(names)}, {value}, {value.floats} floats"
            )
            offset += value.floats
    return _HEADER.format(
        interface="\n".join(lines),
        inputs=_floats(program, program.inputs),
        outputs=_floats(program, program.outputs),
        scratch=scratch_floats(plan),
        flash=flash_bytes(program),
        macs=program.macs,
    )


def selftest(vectors: Sequence[tuple[Sequence[Tensor], Sequence[Tensor]]], allowed: float) -> str:
    """net_selftest.c: pairs of inputs and expected outputs, and the allowed error relative to the largest output."""
    columns = [",\n".join(_rows(vector[i]) for vector in vectors) for i in (0, 1)]
    return _SELFTEST.format(count=len(vectors), allowed=literal(allowed), inputs=columns[0], expected=columns[1])


def scratch_floats(plan: Plan) -> int:
    """At least one, since C has no empty arrays."""
    return max(plan.scratch, 1)


def flash_bytes(program: Program) -> int:
    """Bytes of all constant tables."""
    return sum(table.size for table in program.tables.values())


def flat(tensors: Sequence[Tensor]) -> list[float]:
    """The floats of tensors one after the other, complex numbers interleaved."""
    return [x for tensor in tensors for x in real_view(tensor.detach()).float().flatten().tolist()]


def _floats(program: Program, names: Sequence[str]) -> int:
    return sum(program.values[name].floats for name in names)


def _rows(tensors: Sequence[Tensor]) -> str:
    words = [literal(x) for x in flat(tensors)]
    rows = [", ".join(words[i : i + PER_LINE]) for i in range(0, len(words), PER_LINE)]
    return "    {\n        " + ",\n        ".join(rows) + "\n    }"


def _body(program: Program, plan: Plan) -> str:
    """The calls, each step under a comment."""
    lines, comment = [], ""
    for call in program.calls:
        if call.comment != comment:
            comment = call.comment
            lines.append(f"    /* {comment} */")
        lines.append(_call(call, plan))
    used = {place.partition(" ")[0] for place in plan.places.values()}
    unused = [f"    (void){area};" for area in ("input", "output", "scratch") if area not in used]
    return "\n".join([*unused, *lines])


def _call(call: Call, plan: Plan) -> str:
    places = [plan.places[name] for name in call.reads]
    places.append(_moved(plan.places[call.write], call.offset))
    line = f"    {call.kernel.name}({', '.join([*places, *call.arguments])});"
    return textwrap.fill(line, WIDTH, subsequent_indent=8 * " ", break_long_words=False, break_on_hyphens=False)


def _moved(place: str, offset: int) -> str:
    area, _, start = place.partition(" + ")
    return pointer(area, int(start or 0) + offset)
