"""Bytes sent, from what compiled programs say: forms of collectives, loops, axes; and from programs compiled here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from hetjax.sharding import mesh as meshes
from hetjax.sharding.traffic import Program, per_step, read, scope
from hetjax.system import runtime

NESTED = """HloModule jit_f, is_scheduled=true, num_partitions=4

%add (x: f32[], y: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%x, %y)
}

%inner (p: f32[8]) -> f32[8] {
  ROOT %r = f32[8]{0} all-reduce(%p), replica_groups={{0,2},{1,3}}, to_apply=%add, metadata={op_name="jit(f)/sent.rows/psum"}
}

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %again = (s32[], f32[8]{0}) while(%t), condition=%less, body=%inner, backend_config={"known_trip_count":{"n":"3"}}
}

%less (p: (s32[], f32[8])) -> pred[] {
  ROOT %l = pred[] compare(%a, %b), direction=LT
}

%wrapped (p: bf16[4,8]) -> bf16[4,8] {
  ROOT %a = bf16[4,8]{1,0} all-to-all(%p), replica_groups=[2,2]<=[4], dimensions={0}
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %w = (s32[], f32[8]{0}) while(%t), condition=%less, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  %s = ((bf16[4,8]{1,0}), bf16[4,8]{1,0}, u32[]) async-start(%x), calls=%wrapped
  %d = bf16[4,8]{1,0} async-done(%s), calls=%wrapped
"""


def test_loops_are_multiplied_and_asynchronous_forms_counted_once():
    found = read(NESTED + "}", meshes.make(2, 2), "other")
    # 15 times 2 * 32 bytes * (2 - 1) / 2 on each of 4 devices; 64 bytes / 2 on each of 4
    assert found == [("rows", "all-reduce", "relation", 15 * 32 * 4), ("other", "all-to-all", "data", 32 * 4)]


PAIRS, LINES = "{{0,1},{2,3}}", "{{0,2},{1,3}}"
FORMS = [  # of what each collective gives, alone and with others, as XLA writes it for CPUs, TPUs and (as a start) GPUs
    ("all-reduce", "f32[8]{0}", LINES, "relation", 32 * 4),
    ("all-reduce", "(f32[], s64[3]{0})", "[1,4]<=[4]", "relation+data", 2 * 28 * 3),
    ("all-reduce-start", "f32[8]{0}", "{}", "relation+data", 2 * 32 * 3),
    ("all-reduce-start", "(f32[3,10]{1,0}, u32[])", LINES, "relation", 124 * 4),
    ("all-gather", "f32[8]{0}", "[2,2]<=[2,2]T(1,0)", "relation", 64),
    ("all-gather", "(f32[2,4]{1,0:T(8,128)}, pred[2]{0})", PAIRS, "data", 17 * 4),
    ("all-gather-start", "(f32[4]{0}, f32[8]{0})", PAIRS, "data", 64),
    (
        "all-gather-start",
        "((f32[1,8,10]{2,1,0}, f32[1,3]{1,0}), (f32[2,8,10]{2,1,0}, f32[2,3]{1,0}))",
        PAIRS,
        "data",
        (640 + 24) / 2 * 4,
    ),
    ("reduce-scatter", "f16[6]{0}", LINES, "relation", 12 * 4),
    ("reduce-scatter", "(f16[6]{0}, f32[4,10]{1,0})", "{{0,1,2,3}}", "relation+data", 172 * 3 * 4),
    ("reduce-scatter-start", "((f32[8,10]{1,0}), f32[4,10]{1,0})", LINES, "relation", 160 * 4),
    (
        "reduce-scatter-start",
        "((f32[8,10]{1,0}, f16[12]{0}), (f32[4,10]{1,0}, f16[6]{0}))",
        LINES,
        "relation",
        172 * 4,
    ),
    ("all-to-all", "bf16[2,40]{1,0}", "{{0,1,2,3}}", "relation+data", 120 * 4),
    ("all-to-all", "bf16[2,40]{1,0}", "mesh['relation'=2,'data'=2] {'relation','data'}", "relation+data", 120 * 4),
    ("all-gather", "f32[4,10]{1,0}", "mesh['relation'=2,'data'=2] {'data'}", "data", 80 * 4),
    ("all-gather", "f32[4,10]{1,0}", "mesh['x'=4,'y'=1] {'x'}", "relation+data", 120 * 4),
    ("all-gather", "f32[4,10]{1,0}", "mesh['x'=2,'y'=2] {'x'}", "relation", 80 * 4),
    ("all-to-all", "(pred[2]{0}, pred[2]{0})", PAIRS, "data", 8),
    ("all-to-all-start", "((f32[4,10]{1,0}), f32[4,10]{1,0})", PAIRS, "data", 80 * 4),
    ("all-to-all-start", "((f32[4]{0}, f32[4]{0}), (f32[4]{0}, f32[4]{0}), u32[])", PAIRS, "data", 16 * 4),
    ("collective-permute", "f32[8]{0}", "{{0,1},{2,2}}", "data", 32),
    ("collective-permute", "(f32[8]{0}, u32[])", "{{0,2},{1,3}}", "relation", 72),
    ("collective-permute-start", "(f32[8]{0}, f32[8]{0})", "{{0,2},{1,3}}", "relation", 64),
    ("collective-permute-start", "(f32[8]{0}, f32[8]{0}, u32[], u32[])", "{{0,2},{2,0}}", "relation", 64),
    (
        "collective-permute-start",
        "((f32[8]{0:T(256)}, u32[]{:S(5)}), (f32[8]{0:T(256)}, u32[]{:S(5)}), u32[], u32[])",
        "{{0,2},{2,0}}",
        "relation",
        72,
    ),
]


@pytest.mark.parametrize(("name", "shape", "groups", "axis", "sent"), FORMS)
def test_every_form_of_a_collective(name, shape, groups, axis, sent):
    collective = name.removesuffix("-start")
    about = "source_target_pairs" if collective == "collective-permute" else "replica_groups"
    lines = [f'%s = {shape} {name}(%p, %q), channel_id=1, {about}={groups}, metadata={{op_name="jit(f)/psum"}}']
    if name != collective:
        lines.append(f'%d = {shape} {collective}-done(%s), metadata={{op_name="jit(f)/psum"}}')
    text = "\n".join(["ENTRY %main (p: f32[8]) -> f32[8] {", *(f"  {line}" for line in lines), "}"])
    assert read(text, meshes.make(2, 2), "it") == [("it", collective, axis, sent)]


def test_what_is_not_understood_is_an_error():
    with pytest.raises(ValueError, match="how often"):
        read(NESTED.replace('"known_trip_count":{"n":"5"}', "") + "}", meshes.make(2, 2), "")
    for groups in (
        "",
        ", replica_groups=mesh['x'=4,'y'=1] {'x':(1)2}",
        ", replica_groups=mesh['x'=2,'y'=2], device_ids=(0,2,1,3) {'x'}",
        ", replica_groups=mesh['x'=2] {'x'}",
    ):
        with pytest.raises(ValueError, match="groups are in a form|groups are of a mesh"):
            read(f"ENTRY %m (p: f32[8]) -> f32[8] {{\n  %x = f32[8] all-reduce(%p){groups}\n}}", meshes.make(2, 2), "")


def test_programs_compiled_here():
    mesh = meshes.make(2, 2)

    def each(x):
        def more(_, total):
            return total + jax.lax.psum(jnp.sin(total), "relation")

        with scope("rows"):
            x = jax.lax.all_to_all(x, "data", 0, 0, tiled=True)
        return jax.lax.fori_loop(0, 7, more, x)

    mapped = jax.shard_map(each, mesh=mesh, in_specs=P(meshes.BOTH), out_specs=P(meshes.BOTH), check_vma=False)
    program, expected = Program("sums", mapped, mesh), jax.jit(mapped)
    for size in (16, 16, 32):
        given = np.ones((size, 8), np.float32)
        np.testing.assert_array_equal(program(given), expected(given))
    assert len(program.compiled) == 2
    bytes_of = (2 * 4 + 8) * 8 * 4  # of the shards of the three calls
    assert per_step([program], 3) == [
        ("rows", "all-to-all", "data", bytes_of / 2 * 4 / 3),
        ("sums", "all-reduce", "relation", pytest.approx(7 * bytes_of * 4 / 3)),
    ]


def test_a_kept_program_is_not_taken_for_one_that_sends_for_something_else(monkeypatch):
    """As `runtime.prepare` has it, which no test calls."""
    monkeypatch.setattr(runtime.os, "environ", found := {"GLIBC_TUNABLES": "", "HOME": "/nowhere"})
    runtime.prepare()
    name = "jax_compilation_cache_include_metadata_in_key"
    before, mesh = getattr(jax.config, name), meshes.make(2, 1)
    jax.config.update(name, bool(int(found[name.upper()])))
    try:
        for kind in ("rows", "sums of rows"):

            def each(x, kind=kind):
                with scope(kind):
                    return jax.lax.psum(x, "relation")

            mapped = jax.shard_map(each, mesh=mesh, in_specs=P("relation"), out_specs=P(), check_vma=False)
            program = Program("other", mapped, mesh)
            program(np.ones((2, 3), np.float32))
            assert {sent.kind for sent in program.sent()} == {kind.replace(" ", "_")}
    finally:
        jax.config.update(name, before)
