"""Polynomials and constants of the math functions.

Computed by benchmarks/math/coefficients.py, which says what each approximates. Do not edit.
"""

from __future__ import annotations


def _table(text: str) -> tuple[float, ...]:
    return tuple(float.fromhex(word) for word in text.split())


EXP: dict[str, tuple[float, ...]] = {
    # error 2**-28.3
    "f32": _table("""
        0x1p+0 0x1p+0 0x1.fffffcp-2 0x1.555492p-3 0x1.5558aap-5 0x1.12396ep-7 0x1.6a524ep-10
    """),
    # error 2**-57.9
    "f64": _table("""
        0x1p+0 0x1p+0 0x1.000000000000ap-1 0x1.555555555550cp-3 0x1.555555555079dp-5
        0x1.1111111124719p-7 0x1.6c16c18439379p-10 0x1.a01a01380a631p-13 0x1.a0199a0caf1dep-16
        0x1.71df0ceccdf1ap-19 0x1.28ad5f56d796ap-22 0x1.ad9f1d2d8cd8p-26
    """),
}

EXP2: dict[str, tuple[float, ...]] = {
    # error 2**-28.3
    "f32": _table("""
        0x1p+0 0x1.62e43p-1 0x1.ebfbdcp-3 0x1.c6af7cp-5 0x1.3b2dep-7 0x1.5f0834p-10
        0x1.416b66p-13
    """),
    # error 2**-57.8
    "f64": _table("""
        0x1p+0 0x1.62e42fefa39efp-1 0x1.ebfbdff82c59cp-3 0x1.c6b08d704a0d4p-5
        0x1.3b2ab6fba11efp-7 0x1.5d87fe78b3babp-10 0x1.4309130c03287p-13 0x1.ffcbfbf8c3a04p-17
        0x1.62bfcdd7db509p-20 0x1.b5260d9e84c1dp-24 0x1.e611adc3559e2p-28 0x1.e80efcf4c641cp-32
    """),
}

LOG: dict[str, tuple[float, ...]] = {
    # error 2**-27.3
    "f32": _table("""
        0x1.555554p-2 -0x1.000226p-2 0x1.99a01ap-3 -0x1.54728p-3 0x1.22d956p-3 -0x1.0d8302p-3
        0x1.055e3ep-3 -0x1.38c432p-4
    """),
    # error 2**-58.5
    "f64": _table("""
        0x1.5555555555592p-1 0x1.999999997ff4bp-2 0x1.24924941dd681p-2 0x1.c71c5217e8353p-3
        0x1.74663c2a1134dp-3 0x1.39a1fc622e618p-3 0x1.2f02fa21ecdedp-3
    """),
}

LOG2: dict[str, tuple[float, ...]] = {
    # error 2**-27.2
    "f32": _table("""
        -0x1.71547p-1 0x1.ec7094p-2 -0x1.715afep-2 0x1.277f44p-2 -0x1.eaa24ap-3 0x1.a2c9dcp-3
        -0x1.87f7ecp-3 0x1.7f281cp-3 -0x1.c39ba4p-4
    """),
    # error 2**-58.5
    "f64": _table("""
        0x1.5555555555592p-1 0x1.999999997ff4bp-2 0x1.24924941dd681p-2 0x1.c71c5217e8353p-3
        0x1.74663c2a1134dp-3 0x1.39a1fc622e618p-3 0x1.2f02fa21ecdedp-3
    """),
}

SIN: dict[str, tuple[float, ...]] = {
    # error 2**-27.9
    "f32": _table("""
        -0x1.555546p-3 0x1.110778p-7 -0x1.9953fep-13
    """),
    # error 2**-57.9
    "f64": _table("""
        -0x1.5555555555548p-3 0x1.111111110f73p-7 -0x1.a01a019be9218p-13 0x1.71de35552b47ep-19
        -0x1.ae5e4b83baeaap-26 0x1.5d8b557e8100fp-33
    """),
}

COS: dict[str, tuple[float, ...]] = {
    # error 2**-33.0
    "f32": _table("""
        0x1.55554ap-5 -0x1.6c0c28p-10 0x1.99e80cp-16
    """),
    # error 2**-63.9
    "f64": _table("""
        0x1.555555555554bp-5 -0x1.6c16c16c15013p-10 0x1.a01a019c8ed02p-16 -0x1.27e4f7f1408f2p-22
        0x1.1ee9db8daa565p-29 -0x1.8fa65e35d54cp-37
    """),
}

TANH: dict[str, tuple[float, ...]] = {
    # error 2**-28.4
    "f32": _table("""
        -0x1.55553ep-2 0x1.1109bep-3 -0x1.b89ab6p-5 0x1.54c388p-6 -0x1.8285dcp-8
    """),
    # error 2**-57.8
    "f64": _table("""
        -0x1.555555555553p-2 0x1.111111110e1cfp-3 -0x1.ba1ba1b781aa4p-5 0x1.664f47f039796p-6
        -0x1.226e229593d18p-7 0x1.d6d0c66a4cd76p-9 -0x1.7d79dbaa6b9e4p-10 0x1.33db21823f156p-11
        -0x1.e32d864cfbf4dp-13 0x1.4caad8cb0233p-14 -0x1.2035d42ae2d51p-16
    """),
}

ERF_BELOW: dict[str, tuple[float, ...]] = {
    # error 2**-28.1
    "f32": _table("""
        0x1.06eba8p-3 -0x1.812732p-2 0x1.ce2888p-4 -0x1.b774a4p-6 0x1.4d5f74p-8 -0x1.5700bep-11
    """),
    # error 2**-56.0
    "f64": _table("""
        0x1.06eba8214db68p-3 -0x1.812746b03799dp-2 0x1.ce2f21a03f8b9p-4 -0x1.b82ce311a97e9p-6
        0x1.565bcceeda984p-8 -0x1.c02daeb71bc22p-11 0x1.f9a296b79ca2bp-14 -0x1.f4c82f407b634p-17
        0x1.b96b5a5761ef4p-20 -0x1.5b8c8177ec6ccp-23 0x1.d3de4d8c7bed4p-27
        -0x1.a240290286175p-31
    """),
}

ERF_ABOVE: dict[str, tuple[float, ...]] = {
    # error 2**-28.6
    "f32": _table("""
        0x1.dc5e5p-15 0x1.20d668p+0 0x1.45b46p-1 0x1.ad9326p-4 -0x1.73e03ap-6 0x1.9ed54cp-9
        -0x1.b5af42p-13
    """),
    # error 2**-59.5
    "f64": _table("""
        0x1.817c13c8e445dp-23 0x1.20dd56337c43p+0 0x1.45f42b2ca725dp-1 0x1.a4da5129ac346p-4
        -0x1.3893b1368f34p-6 -0x1.26136c4b78dfcp-12 0x1.cfb9073f7d138p-10 -0x1.502462cf99839p-11
        0x1.77d1404910028p-15 0x1.272fccb980a31p-14 -0x1.79d748c4bbc4dp-15 0x1.1515b38f2d2cep-16
        -0x1.226957f8ffbfp-18 0x1.c8b252add2d34p-21 -0x1.0dfaf45005b91p-23 0x1.d444e1d4716f9p-27
        -0x1.19fb4f01e232ep-30 0x1.a5ed9b4c1bb75p-35 -0x1.277db70b36dcbp-40
    """),
}

LN2_PARTS: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.62e43p-1 -0x1.05c61p-29
    """),
    "f64": _table("""
        0x1.62e42fefa39efp-1 0x1.abc9e3b39803fp-56
    """),
}

LOG2E_PARTS: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.715476p+0 0x1.4ae0cp-26
    """),
    "f64": _table("""
        0x1.71547652b82fep+0 0x1.777d0ffda0d24p-56
    """),
}

HALF_PI_PARTS: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.921fb4p+0 0x1.4442dp-24 0x1.846988p-48
    """),
    "f64": _table("""
        0x1.921fb54442d18p+0 0x1.1a62633145c06p-54 0x1.c1cd129024e08p-107
    """),
}

# The bits of 2/π after the binary point, most significant word first.
TWO_OVER_PI: dict[str, tuple[int, ...]] = {
    "f32": (
        0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB,
    ),
    "f64": (
        0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
        0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484,
        0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F,
        0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B,
        0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
    ),
}  # fmt: skip
