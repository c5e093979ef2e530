"""Polynomials and constants of the device library.

Computed by benchmarks/math/library_coefficients.py, which says what each approximates. Do not edit.
"""

from __future__ import annotations


def _table(text: str) -> tuple[float, ...]:
    return tuple(float.fromhex(word) for word in text.split())


EXP10: dict[str, tuple[float, ...]] = {
    # error 2**-28.5, sum of sizes 9.91
    "f32": _table("""
        0x1p+0 0x1.26bb1cp+1 0x1.53524ap+1 0x1.046f9cp+1 0x1.2bd9fap+0 0x1.156a22p-1
        0x1.a6420cp-3
    """),
    # error 2**-57.7, sum of sizes 10
    "f64": _table("""
        0x1p+0 0x1.26bb1bbb55516p+1 0x1.53524c73cea6fp+1 0x1.0470591de2b7bp+1
        0x1.2bd7609fd666fp+0 0x1.1429ffd210ef3p-1 0x1.a7ed709c91f12p-3 0x1.16e4df1a51622p-4
        0x1.41166663a4c66p-6 0x1.4899627174888p-8 0x1.2f6be81034a05p-10 0x1.f85cc3c1c1c2p-13
    """),
}

EXPM1: dict[str, tuple[float, ...]] = {
    # error 2**-31.1, sum of sizes 0.718
    "f32": _table("""
        0x1p-1 0x1.555556p-3 0x1.5554f6p-5 0x1.111002p-7 0x1.6d3c86p-10 0x1.a24742p-13
    """),
    # error 2**-61.7, sum of sizes 0.718
    "f64": _table("""
        0x1p-1 0x1.5555555555559p-3 0x1.5555555555556p-5 0x1.111111110f627p-7
        0x1.6c16c16c16279p-10 0x1.a01a01b022801p-13 0x1.a01a01a662097p-16 0x1.71ddf7a807fb5p-19
        0x1.27e4dde09f0ddp-22 0x1.af60050ae3185p-26 0x1.1f6ca155676bdp-29
    """),
}

AREA_TANGENT: dict[str, tuple[float, ...]] = {
    # error 2**-42.7, sum of sizes 1.1
    "f32": _table("""
        0x1.999998p-2 0x1.2493b6p-2 0x1.c63da8p-3 0x1.9083fcp-3
    """),
    # error 2**-76.0, sum of sizes 1.72
    "f64": _table("""
        0x1.999999999999ap-2 0x1.2492492492363p-2 0x1.c71c71c747eb5p-3 0x1.745d172bc6e34p-3
        0x1.3b13ba5ba39dbp-3 0x1.110f1be3f6239p-3 0x1.e2659a61405c6p-4 0x1.a50687dc4c5f2p-4
        0x1.ecb71e5a63365p-4
    """),
}

SINPI: dict[str, tuple[float, ...]] = {
    # error 2**-33.4, sum of sizes 8.4
    "f32": _table("""
        -0x1.4abbcep+2 0x1.466b78p+1 -0x1.32adaap-1 0x1.443a98p-4
    """),
    # error 2**-63.5, sum of sizes 8.41
    "f64": _table("""
        -0x1.4abbce625be53p+2 0x1.466bc6775ab7cp+1 -0x1.32d2cce63af7fp-1 0x1.5078349d9d9c2p-4
        -0x1.e3076ec7e97dp-8 0x1.e908d66c81eccp-12 -0x1.73d4767326727p-16
    """),
}

COSPI: dict[str, tuple[float, ...]] = {
    # error 2**-31.1, sum of sizes 10.6
    "f32": _table("""
        -0x1.3bd3ccp+2 0x1.03c1bp+2 -0x1.55b2b6p+0 0x1.d4f7eep-3
    """),
    # error 2**-61.8, sum of sizes 10.6
    "f64": _table("""
        -0x1.3bd3cc9be45dep+2 0x1.03c1f081b5a38p+2 -0x1.55d3c7e3b99d1p+0 0x1.e1f506643df74p-3
        -0x1.a6d1caf7d1d34p-6 0x1.f9a483a4c53dep-10 -0x1.99edf375882d2p-14
        -0x1.86e4a981e117dp-16
    """),
}

ATAN: dict[str, tuple[float, ...]] = {
    # error 2**-33.9, sum of sizes 0.913
    "f32": _table("""
        -0x1.555554p-2 0x1.99989p-3 -0x1.246fc6p-3 0x1.c2f3ep-4 -0x1.5347a2p-4 0x1.64745ap-5
    """),
    # error 2**-63.9, sum of sizes 1.23
    "f64": _table("""
        -0x1.5555555555554p-2 0x1.9999999999584p-3 -0x1.249249246f58fp-3 0x1.c71c71b458f11p-4
        -0x1.745d14504e8e8p-4 0x1.3b1364f0eb25ep-4 -0x1.110beb84977b5p-4 0x1.e167bca77d36dp-5
        -0x1.ab3bfd329b8f5p-5 0x1.6fe51bea89799p-5 -0x1.0fd5c6c20527dp-5 0x1.e84ec2f307859p-7
    """),
}

SINH: dict[str, tuple[float, ...]] = {
    # error 2**-31.6, sum of sizes 0.175
    "f32": _table("""
        0x1.555556p-3 0x1.1110ep-7 0x1.a022bap-13 0x1.756cb4p-19
    """),
    # error 2**-63.0, sum of sizes 0.175
    "f64": _table("""
        0x1.5555555555555p-3 0x1.111111111119bp-7 0x1.a01a01a00735bp-13 0x1.71de3a68d038dp-19
        0x1.ae6441227f98ep-26 0x1.61314d7002fadp-33 0x1.a66536b06fe27p-41 0x1.d2a20da5a31f8p-48
    """),
}

RCBRT: dict[str, tuple[float, ...]] = {
    # error 2**-14.7, sum of sizes 3.79
    "f32": _table("""
        0x1.ab8584p+0 -0x1.2c41bep+0 0x1.641602p-1 -0x1.c517cep-3 0x1.d46eb2p-6
    """),
    # error 2**-14.7, sum of sizes 3.79
    "f64": _table("""
        0x1.ab8584p+0 -0x1.2c41bep+0 0x1.641602p-1 -0x1.c517cep-3 0x1.d46eb2p-6
    """),
}

ERFCX: dict[str, tuple[float, ...]] = {
    # error 2**-30.1, sum of sizes 0.263
    "f32": _table("""
        -0x1.1f3676p-4 0x1.d5f3d8p-10 0x1.510164p-5 -0x1.bdaa22p-5 0x1.7a13eep-5 -0x1.e0c35ap-6
        0x1.d0b61ap-7 -0x1.401064p-8 0x1.cb1eb8p-11 0x1.581378p-13 -0x1.2a207cp-13
        0x1.7c63dep-17 0x1.36139ep-17
    """),
    # error 2**-62.8, sum of sizes 0.263
    "f64": _table("""
        -0x1.1f367683f89a7p-4 0x1.d5f2948159d13p-10 0x1.510169d09680fp-5 -0x1.bda9309a2888ep-5
        0x1.7a14188a99a1fp-5 -0x1.e0d0fa6e00d34p-6 0x1.d0b0037dcf9d7p-7 -0x1.3f603c33b2a92p-8
        0x1.cc3a0e20c7ef4p-11 0x1.33fb24744cb8dp-13 -0x1.303f9d7667fb5p-13 0x1.b14444e6a1596p-16
        0x1.778a234f554dfp-17 -0x1.800854176602p-18 -0x1.0524a1d6f7567p-21 0x1.d6b128aa78c5ep-21
        -0x1.f4aaed7136a77p-26 -0x1.186e5f7c328bp-23 0x1.a1ab46c653837p-27 0x1.601c33970092bp-26
        -0x1.2e8eb2ef743b1p-29 -0x1.c281316617c6p-29 0x1.2eaf75fe7363cp-32 0x1.f1a6fe1bff25ap-32
        -0x1.50f0293d8cfep-36 -0x1.4483c2ef743ccp-35
    """),
}

ERFINV: dict[str, tuple[float, ...]] = {
    # error 2**-35.3, sum of sizes 0.696
    "f32": _table("""
        0x1.db29fcp-3 0x1.053bdep-3 0x1.6297e8p-4 0x1.08f6c4p-4 0x1.b82598p-5 0x1.26117p-5
        0x1.5ae61ap-5 0x1.b30f68p-5
    """),
    # error 2**-69.9, sum of sizes 2.09
    "f64": _table("""
        0x1.db29fb2fee5e4p-3 0x1.053c2c0ab91b2p-3 0x1.62847c47df37fp-4 0x1.0a13189be7d7dp-4
        0x1.a7c85cbfb0c36p-5 0x1.5eeb163db90edp-5 0x1.2abb3b8ac9faep-5 0x1.038e1a3db417p-5
        0x1.cb70fc4470b05p-6 0x1.90ce68f62b2a8p-6 0x1.b0e6edcdd200ep-6 0x1.3271b383e01b9p-10
        0x1.79435864039bep-4 -0x1.726fdd90cfb2ap-3 0x1.8a5858d40e0ccp-2 -0x1.a70ed774600b3p-2
        0x1.0a3ec59c28abdp-2
    """),
}

ERFCINV: dict[str, tuple[float, ...]] = {
    # error 2**-14.7, sum of sizes 10.3
    "f32": _table("""
        0x1.003176p+0 -0x1.8b4654p-5 -0x1.3c5142p+0 0x1.1c914cp+1 -0x1.4c948ep+1 0x1.070b9ep+1
        -0x1.e503e6p-1 0x1.7f64e2p-3
    """),
    # error 2**-14.7, sum of sizes 10.3
    "f64": _table("""
        0x1.003176p+0 -0x1.8b4654p-5 -0x1.3c5142p+0 0x1.1c914cp+1 -0x1.4c948ep+1 0x1.070b9ep+1
        -0x1.e503e6p-1 0x1.7f64e2p-3
    """),
}

LGAMMA: dict[str, tuple[float, ...]] = {
    # error 2**-30.6, sum of sizes 0.423
    "f32": _table("""
        0x1.4a34ccp-2 -0x1.13e002p-4 0x1.51331ap-6 -0x1.e402ep-8 0x1.7a77e4p-9 -0x1.39403ap-10
        0x1.12c246p-11 -0x1.b7ca6cp-13 0x1.59d2bp-14 -0x1.35634p-14
    """),
    # error 2**-59.9, sum of sizes 0.423
    "f64": _table("""
        0x1.4a34cc4a60fa6p-2 -0x1.13e001a557607p-4 0x1.51322ac7d88a8p-6 -0x1.e404fc218ec5fp-8
        0x1.7add6ead23f8dp-9 -0x1.38ac5c2cb07a7p-10 0x1.0b36afd02275cp-11 -0x1.d3fd4bb790f93p-13
        0x1.a127889041919p-14 -0x1.78de90c2cb9f8p-15 0x1.58144e6bb23e9p-16
        -0x1.3cb41554161d1p-17 0x1.24f5047cc781cp-18 -0x1.12846dc53badbp-19
        0x1.09ef2643a7ae6p-20 -0x1.caabd1b360507p-22 0x1.271eb709faee8p-23
        -0x1.338dbb1991e99p-23 0x1.ff482326ae31cp-24 0x1.45d0946579c8fp-27
    """),
}

TGAMMA: dict[str, tuple[float, ...]] = {
    # error 2**-32.0, sum of sizes 0.586
    "f32": _table("""
        0x1.a5b97ap-2 0x1.4e23aep-4 0x1.301f04p-4 -0x1.1b275cp-12 0x1.6dc90ep-7 -0x1.71261p-9
        0x1.0cf5bp-9 -0x1.1c5fc6p-10 0x1.494068p-11
    """),
    # error 2**-62.1, sum of sizes 0.586
    "f64": _table("""
        0x1.a5b978b96bebfp-2 0x1.4e2399846508p-4 0x1.301fbb0f25b59p-4 -0x1.17f3740e6955fp-12
        0x1.6d7eeac9c7ee6p-7 -0x1.75e6e90da1624p-9 0x1.13c449db5acdap-9 -0x1.e21f190423a0ap-11
        0x1.011acd3e85b91p-11 -0x1.f94b39465a882p-13 0x1.fe583c9bf63dbp-14
        -0x1.fddce9254417ap-15 0x1.feb5357f05f8fp-16 -0x1.00b86be2cc99p-16 0x1.01aca5477de65p-17
        -0x1.e2ec0a8d6e016p-19 0x1.d65e28bed0482p-20 -0x1.6326bb0283861p-20
        0x1.781969d055aa2p-21
    """),
}

STIRLING: dict[str, tuple[float, ...]] = {
    # error 2**-33.8, sum of sizes 0.0869
    "f32": _table("""
        0x1.555556p-4 -0x1.6c296cp-9 0x1.a9c9f8p-11
    """),
    # error 2**-64.5, sum of sizes 0.0968
    "f64": _table("""
        0x1.5555555555555p-4 -0x1.6c16c16c1077bp-9 0x1.a01a015b638a6p-11 -0x1.38132e36c7122p-11
        0x1.b91e1d5132df4p-11 -0x1.edea251b5bae9p-10 0x1.40883ca1e71fep-8 0x1.b06dbe4f13499p-10
    """),
}

I0_BELOW: dict[str, tuple[float, ...]] = {
    # error 2**-30.9, sum of sizes 1.27
    "f32": _table("""
        0x1p+0 0x1p-2 0x1p-6 0x1.c71c6ap-12 0x1.c71d32p-18 0x1.233e5p-24 0x1.032ce2p-31
        0x1.4f386ap-39 0x1.65429ep-47 0x1.877cf6p-56 0x1.3556b4p-63
    """),
    # error 2**-65.5, sum of sizes 1.27
    "f64": _table("""
        0x1p+0 0x1p-2 0x1p-6 0x1.c71c71c71c71cp-12 0x1.c71c71c71c739p-18 0x1.23456789aba0ep-24
        0x1.02e85c089d861p-31 0x1.522a43f5b1d7dp-39 0x1.522a4404a81c3p-47 0x1.0b3131a8f13bbp-55
        0x1.56019c0b8bcf8p-64 0x1.69c95e3450fb2p-73 0x1.41a6406f03d7ap-82 0x1.e6309c293301p-92
        0x1.43b47567f22a3p-101 0x1.3f7876d360e0fp-111 0x1.12798ad1b6cbep-120
    """),
}

I1_BELOW: dict[str, tuple[float, ...]] = {
    # error 2**-28.4, sum of sizes 0.565
    "f32": _table("""
        0x1p-1 0x1p-4 0x1.55554cp-9 0x1.c71d92p-15 0x1.6c0a42p-21 0x1.84e51ep-28 0x1.24a92ap-35
        0x1.68d69ep-43 0x1.a45b5ap-52 0x1.8dfd3ap-59
    """),
    # error 2**-63.9, sum of sizes 0.565
    "f64": _table("""
        0x1p-1 0x1p-4 0x1.5555555555555p-9 0x1.c71c71c71c738p-15 0x1.6c16c16c168a4p-21
        0x1.845c8a0cec751p-28 0x1.27e4fb76ee76ap-35 0x1.522a4407501f6p-43 0x1.2c97579062befp-51
        0x1.ab820e84d026cp-60 0x1.f173b8d340b69p-69 0x1.e28e87c9efd1fp-78 0x1.89f47e9dd3525p-87
        0x1.25236a8930942p-96 0x1.5a6db6e1926d6p-107 0x1.929e4601a7799p-114
        -0x1.4a663bdb2a426p-122 0x1.71367ac6cc9aep-131
    """),
}

I0_ABOVE: dict[str, tuple[float, ...]] = {
    # error 2**-25.3, sum of sizes 0.406
    "f32": _table("""
        0x1.9bd428p-2 0x1.b87968p-9 0x1.1e57d4p-13 0x1.7609dep-17 -0x1.1ef384p-23 0x1.2a2366p-22
        0x1.6853acp-19 0x1.3dabbcp-24 -0x1.59c3dcp-20 -0x1.52762ep-26
    """),
    # error 2**-53.8, sum of sizes 0.406
    "f64": _table("""
        0x1.9bd428ad249a5p-2 0x1.b87969bb93bd7p-9 0x1.1daa72b5996b6p-13 0x1.75e5ee6f63d82p-17
        0x1.8e514277da445p-20 0x1.3f49b0dc370dep-22 0x1.7d0409bc9662fp-24 0x1.51ca1af862b83p-25
        0x1.742c49a2d2e9fp-26 0x1.042a68e86194cp-27 -0x1.02b895e1c9605p-27
        -0x1.cfea81fb53409p-27 -0x1.11814e1a00b71p-29 0x1.0ef33979939p-27 -0x1.5f46b6457b5afp-29
        -0x1.292bf684602c4p-28 0x1.e1f8d08d76899p-27 0x1.9109d5f64b9f2p-29
        -0x1.98d13da7df40bp-26 -0x1.32693a9dc051fp-29 0x1.98e83e98b67b3p-26
        0x1.9a041fbd76c03p-30 -0x1.fa35279afd998p-27 -0x1.8d160b03ff87bp-31
        0x1.66ff9f4dcd136p-28 0x1.d9ba620c0078cp-33 -0x1.bf10c7b681b39p-31
        -0x1.0227a2842f124p-35
    """),
}

I1_ABOVE: dict[str, tuple[float, ...]] = {
    # error 2**-26.8, sum of sizes 0.399
    "f32": _table("""
        0x1.8ebe78p-2 -0x1.3f7962p-7 -0x1.cb8b12p-13 -0x1.f89c02p-17 -0x1.3ea6fap-19
        -0x1.6e43d6p-22 0x1.94d15ep-21 -0x1.141806p-24 -0x1.d66816p-22 0x1.f2778cp-27
    """),
    # error 2**-56.3, sum of sizes 0.399
    "f64": _table("""
        0x1.8ebe783a8403p-2 -0x1.3f796198ee63fp-7 -0x1.cbc54df1fb012p-13 -0x1.f89c230416845p-17
        -0x1.ec8e0e7dde2c1p-20 -0x1.761387ab28c03p-22 -0x1.ad8ffa6ec19a4p-24
        -0x1.7276263b14c6ap-25 -0x1.9116fa088a61ap-26 -0x1.221a82a1d6395p-27
        0x1.c20463af4fc1ap-28 0x1.e50e297e9ad65p-27 0x1.d21d7700bc0b4p-28 -0x1.10ba6f610f418p-27
        -0x1.600349c797157p-27 0x1.1cf3282ca1434p-28 0x1.780bf810f145ap-27
        -0x1.6dbc410136037p-29 -0x1.5fa2de6dda95ap-27 0x1.0eb9c68488604p-29
        0x1.0671f19764e02p-27 -0x1.6419da9271ef4p-30 -0x1.14ad11bc7ab8p-28 0x1.54fd3f4dea502p-31
        0x1.643d0a6ccef38p-30 -0x1.9340a620e1137p-33 -0x1.a0832d6a47d13p-33
        0x1.b466595a9fcddp-36
    """),
}

J0_NEAR: dict[str, tuple[float, ...]] = {
    # error 2**-56.5, sum of sizes 1.39
    "f64": _table("""
        -0x1.9287ceca38d6bp-3 -0x1.21c581744c39cp-1 0x1.eb0968d968a5dp-2 -0x1.0c5a89dc25e5fp-3
        0x1.2cb0ce3a76779p-6 -0x1.9de9d184090ffp-10 0x1.830ec38582acdp-14 -0x1.066b29f16144p-18
        0x1.0e184d3442b4ep-23 -0x1.b4b3cf12ddc1bp-29 0x1.1cf4310aca297p-34
        -0x1.3340b4f7240bap-40 0x1.15f5a450b95e7p-52
    """),
}

J0_FAR: dict[str, tuple[float, ...]] = {
    # error 2**-56.5, sum of sizes 1.42
    "f64": _table("""
        0x1.d4ac1166bde6p-3 0x1.87f213bfa91ecp-2 -0x1.0db1bdfe2ed2p-1 -0x1.36973dad99cdap-6
        0x1.551a990f9581ep-3 -0x1.397bb029b5983p-4 0x1.2b81aeaae1d4bp-6 -0x1.746a850ab069ep-9
        0x1.4be458cfd7046p-12 -0x1.c0ae918573e44p-16 0x1.de09b4333dc27p-20
        -0x1.9cd3d4d25e97bp-24 0x1.274a3dbec499bp-28 -0x1.6426af9cd1a02p-33
        0x1.759909d309174p-38 -0x1.385b6da24feb8p-43
    """),
}

J1_NEAR: dict[str, tuple[float, ...]] = {
    # error 2**-57.0, sum of sizes 0.5
    "f64": _table("""
        0x1.21c581744c39cp-3 -0x1.eb0968d968a52p-3 0x1.9287ceca38d8ep-4 -0x1.2cb0ce3a76f2fp-6
        0x1.02b222f285733p-9 -0x1.224b12a2a5e2cp-13 0x1.cb3b896c0a6cfp-18 -0x1.0e185490b378dp-22
        0x1.eb49f6d64a08fp-28 -0x1.63f213f0e8ed1p-33 0x1.aa0ba48205b22p-39 -0x1.8d522046fba5p-45
        -0x1.aec853420582ep-47
    """),
}

J1_FAR: dict[str, tuple[float, ...]] = {
    # error 2**-59.1, sum of sizes 0.223
    "f64": _table("""
        -0x1.054c0d2a70bf3p-5 0x1.6797a7fd93c36p-4 0x1.36973dad99df6p-8 -0x1.c6ce216a1cdbp-5
        0x1.053c6822c1da4p-5 -0x1.2b81aeaadb4e4p-7 0x1.b27c45e1e9b1cp-10 -0x1.ba85cbc61861fp-13
        0x1.5082ed0ff5787p-16 -0x1.8e5d6596c0eap-20 0x1.7a6cf6300154bp-24 -0x1.274f9c4157392p-28
        0x1.81a8fd71b0affp-33 -0x1.abe3a0085cf49p-38 0x1.b88a7aec7a3bap-43
        -0x1.b8cb4b9b9e179p-48
    """),
}

Y0_NEAR: dict[str, tuple[float, ...]] = {
    # error 2**-54.1, sum of sizes 1.19
    "f64": _table("""
        0x1.1de47f3d61dbbp-1 0x1.a1331a69b9ad2p-5 -0x1.9d62c655f0485p-2 0x1.3403132dcde12p-3
        -0x1.9408055c40ef8p-6 0x1.343e1fcd27c95p-9 -0x1.36d3e48d28c38p-13 0x1.bf172602498c9p-18
        -0x1.e2dfd5286855fp-23 0x1.968172177e2ccp-28 -0x1.1328cfcce0207p-33
        0x1.302e71f1a410ep-39 0x1.5605001b01148p-44
    """),
}

Y0_FAR: dict[str, tuple[float, ...]] = {
    # error 2**-55.8, sum of sizes 1.83
    "f64": _table("""
        -0x1.f37959a74bb53p-2 -0x1.990f01e9b031dp-6 0x1.9feef9add1bap-1 -0x1.f175c3af23396p-3
        -0x1.0f8e47e6eb45cp-3 0x1.83a98dfcd09e9p-4 -0x1.b2cda2941b033p-6 0x1.296d9499b9b76p-8
        -0x1.1b9e804dc42ddp-11 0x1.93fd5f084d0e3p-15 -0x1.c11aae9532d7ap-19
        0x1.91f50233f0057p-23 -0x1.2884088dcbcf9p-27 0x1.6f5db8aac80afp-32
        -0x1.8996493d4ea4cp-37 0x1.62c96680402c4p-42
    """),
}

Y1_NEAR: dict[str, tuple[float, ...]] = {
    # error 2**-59.1, sum of sizes 0.361
    "f64": _table("""
        0x1.51dd34f6a80cp-4 0x1.369daf19b82a4p-3 -0x1.9cc7b4993edebp-4 0x1.79eb3dc1c8daap-6
        -0x1.6fd45fc637b14p-9 0x1.c22abaa97eefap-13 -0x1.7c6b170a426p-17 0x1.d7d9ec58c61ffp-22
        -0x1.c0736c3e6b853p-27 0x1.514caf1d6235p-32 -0x1.9c0e37af8e9c2p-38 0x1.a6da956948a39p-44
        -0x1.54e219f840533p-54
    """),
}

Y1_FAR: dict[str, tuple[float, ...]] = {
    # error 2**-61.3, sum of sizes 0.327
    "f64": _table("""
        0x1.d659565e15fep-7 -0x1.30d8b338cb07ap-3 0x1.3c2335ae06d8cp-4 0x1.1ba82db360bb9p-5
        -0x1.29b781d722bc1p-5 0x1.9de9b490c7d6dp-7 -0x1.4eff357d7a8b2p-9 0x1.6ff6e5e1aa171p-12
        -0x1.2851209c64a4bp-15 0x1.6f4c305b8a836p-19 -0x1.6a8cde0f8b517p-23
        0x1.245b4d048b883p-27 -0x1.8900b732f9671p-32 0x1.bf67bfeed0ce9p-37
        -0x1.b384810b51c17p-42 0x1.8d6a3795137a3p-47
    """),
}

P0: dict[str, tuple[float, ...]] = {
    # error 2**-55.6, sum of sizes 1
    "f64": _table("""
        0x1p+0 -0x1.1ffffffffbfc7p-10 0x1.cb5fffc14e006p-16 -0x1.251ebd2246924p-19
        0x1.84ae4999301acp-22 -0x1.b68be4860b42fp-24 0x1.6eb14afea892fp-25
        -0x1.81dc211b9345fp-26 0x1.9dc87279055e5p-27 -0x1.6d78ac32c0671p-28
        0x1.aeda8535e910bp-30 -0x1.e4e2dbdd0aff4p-33
    """),
}

Q0: dict[str, tuple[float, ...]] = {
    # error 2**-52.7, sum of sizes 0.126
    "f64": _table("""
        -0x1.ffffffffffff6p-4 0x1.2bffffffcf5c1p-10 -0x1.d11dfec5efb3ep-15 0x1.ba4b915e91583p-18
        -0x1.85f536c3bcebap-20 0x1.11fa72f6984cfp-21 -0x1.0ed58bc66ff71p-22
        0x1.3f77d532dea0dp-23 -0x1.6e8eaadb1e9c6p-24 0x1.4ff6559d52f44p-25
        -0x1.9415aa1eba0afp-27 0x1.cbd8aaa49bb7p-30
    """),
}

P1: dict[str, tuple[float, ...]] = {
    # error 2**-55.5, sum of sizes 1
    "f64": _table("""
        0x1p+0 0x1.dffffffffbbdap-10 -0x1.274fffdebeb5fp-15 0x1.5a6a2a8a14016p-19
        -0x1.b88257fa5e3eap-22 0x1.e4c7582d58104p-24 -0x1.8ef1e8b4f37bp-25 0x1.9fb513c168f11p-26
        -0x1.bb5428af49306p-27 0x1.86627dec79912p-28 -0x1.cb707586ce2ecp-30
        0x1.02435e49e6b48p-32
    """),
}

Q1: dict[str, tuple[float, ...]] = {
    # error 2**-52.4, sum of sizes 0.377
    "f64": _table("""
        0x1.7fffffffffffdp-2 -0x1.a3ffffffc6805p-10 0x1.1c3cff49287bbp-14 -0x1.fe5732f6120ffp-18
        0x1.b3d56ab97b8bap-20 -0x1.2c0a7417c01e5p-21 0x1.243f97fda64d6p-22
        -0x1.5451999a97d74p-23 0x1.816d20a0f0d5p-24 -0x1.5c7045e971bfep-25 0x1.9d21752c3727p-27
        -0x1.cf45cfd6f6a7ap-30
    """),
}

LOG10E: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.bcb7b2p-2 -0x1.5b235ep-27
    """),
    "f64": _table("""
        0x1.bcb7b1526e50ep-2 0x1.95355baaafad3p-57
    """),
}

LN2: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.62e43p-1 -0x1.05c61p-29
    """),
    "f64": _table("""
        0x1.62e42fefa39efp-1 0x1.abc9e3b39803fp-56
    """),
}

LOG2_10: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.a934fp+1 0x1.2f346ep-24
    """),
    "f64": _table("""
        0x1.a934f0979a371p+1 0x1.7f2495fb7fa6dp-53
    """),
}

LOG10_2: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.344136p-2 -0x1.ec10cp-27
    """),
    "f64": _table("""
        0x1.34413509f79ffp-2 -0x1.9dc1da994fd21p-59
    """),
}

PI: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.921fb6p+1 -0x1.777a5cp-24
    """),
    "f64": _table("""
        0x1.921fb54442d18p+1 0x1.1a62633145c07p-53
    """),
}

HALF_PI: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.921fb6p+0 -0x1.777a5cp-25
    """),
    "f64": _table("""
        0x1.921fb54442d18p+0 0x1.1a62633145c07p-54
    """),
}

QUARTER_PI: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.921fb6p-1 -0x1.777a5cp-26
    """),
    "f64": _table("""
        0x1.921fb54442d18p-1 0x1.1a62633145c07p-55
    """),
}

SQRT2: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.6a09e6p+0 0x1.9fcef4p-26
    """),
    "f64": _table("""
        0x1.6a09e667f3bcdp+0 -0x1.bdd3413b26456p-54
    """),
}

SQRT_HALF: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.6a09e6p-1 0x1.9fcef4p-27
    """),
    "f64": _table("""
        0x1.6a09e667f3bcdp-1 -0x1.bdd3413b26456p-55
    """),
}

TWO_OVER_SQRT_PI: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.20dd76p+0 -0x1.f7ac92p-25
    """),
    "f64": _table("""
        0x1.20dd750429b6dp+0 0x1.1ae3a914fed8p-56
    """),
}

ERFCX_MIDDLE: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.3ccdap-1 0x1.6babb8p-26
    """),
    "f64": _table("""
        0x1.3ccda0b5d5dc2p-1 0x1.e65b158f28ce5p-55
    """),
}

HALF_SQRT_PI: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.c5bf8ap-1 -0x1.c96212p-26
    """),
    "f64": _table("""
        0x1.c5bf891b4ef6bp-1 -0x1.618f13eb7ca89p-55
    """),
}

HALF_LOG_2PI: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.d67f1cp-1 0x1.0c97d6p-26
    """),
    "f64": _table("""
        0x1.d67f1c864beb5p-1 -0x1.65b5a1b7ff5dfp-55
    """),
}

LOG_PI: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.250d04p+0 0x1.1cf438p-25
    """),
    "f64": _table("""
        0x1.250d048e7a1bdp+0 0x1.7abf2ad8d5088p-57
    """),
}

SQRT_2PI: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.40d932p+1 -0x1.3b1f4ep-32
    """),
    "f64": _table("""
        0x1.40d931ff62706p+1 -0x1.a6a0d6f814637p-53
    """),
}

ONE_MINUS_EULER: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.b0ee6p-2 0x1.c824f4p-28
    """),
    "f64": _table("""
        0x1.b0ee6072093cep-2 0x1.6cb90701fbfabp-58
    """),
}

TWO_THIRDS: dict[str, tuple[float, ...]] = {
    "f32": _table("""
        0x1.555556p-1 -0x1.555556p-26
    """),
    "f64": _table("""
        0x1.5555555555555p-1 0x1.5555555555555p-55
    """),
}
