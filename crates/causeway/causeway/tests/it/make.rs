use causeway::log::atomic::Ordering::Relaxed;
use causeway::log::*;
use causeway_testkit::Rng;
fn image(memory: &HeapMemory) -> Vec<u8> {
    let tail = memory.tail();
    let mut words = vec![
        tail.limit.load(Relaxed),
        tail.floor.load(Relaxed),
        tail.hint.load(Relaxed),
        tail.mark_index.load(Relaxed),
    ];
    for mark in &tail.marks {
        words.extend([mark.position.load(Relaxed), mark.messages.load(Relaxed)]);
    }
    words.push(tail.publishers[0].claim.load(Relaxed));
    for granule in 0..16 {
        words.push(memory.header(granule * 64).load(Relaxed));
        words.extend(memory.meta(granule * 64).iter().map(|meta| meta.load(Relaxed)));
    }
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}
#[test]
fn make() {
    for (name, kind, seed) in [
        ("single", Kind::Single, 1),
        ("single-more", Kind::Single, 2),
        ("shared", Kind::Shared, 3),
        ("shared-more", Kind::Shared, 4),
        ("shared-busy", Kind::Shared, 5),
    ] {
        let memory = HeapMemory::new(1024, kind == Kind::Single);
        let mut random = Rng::with_seed(seed);
        let mut writers = [0, 1].map(|owner| Writer::new(&memory, kind, owner));
        let mut out = vec![u8::from(kind == Kind::Shared)];
        for step in 0..30 {
            if [3, 12, 29].contains(&step) {
                out.extend(image(&memory));
            }
            let by = if kind == Kind::Single { 0 } else { random.usize(..2) };
            let length = random.usize(..200);
            let Ok(Claimed::At(claim)) = writers[by].claim(length, &mut || u64::MAX) else { continue };
            if name == "shared-busy" && step == 28 {
                out.extend(image(&memory));
                break;
            }
            if random.u8(..).is_multiple_of(5) {
                writers[by].abandon(claim).unwrap();
            } else {
                memory.write_payload(claim.position, &vec![step; length]);
                writers[by].commit(claim, Label { topic: u32::from(step), correlation: 0 }).unwrap();
            }
        }
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/log")).unwrap();
        std::fs::write(format!("{}/tests/corpus/log/{name}", env!("CARGO_MANIFEST_DIR")), out).unwrap();
    }
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/control");
    std::fs::create_dir_all(dir).unwrap();
    use crate::common::wire::{message, offer};
    let program = |steps: &[(u8, [u8; 64])]| -> Vec<u8> {
        steps.iter().flat_map(|(how, bytes)| [&[*how, 64, 0][..], bytes].concat()).collect()
    };
    let put = |name: &str, steps: &[(u8, [u8; 64])]| {
        std::fs::write(format!("{dir}/{name}"), program(steps)).unwrap()
    };
    put(
        "subscribe",
        &[(0, message(3, &[3, 0])), (0, message(6, &[])), (0, message(7, &[])), (0, message(11, &[]))],
    );
    put(
        "publish",
        &[
            (0, message(1, &[])),
            (0, message(2, &[])),
            (0, message(8, &[0, 0, 0])),
            (0, message(9, &[0, 0])),
            (0, message(10, &[])),
        ],
    );
    put(
        "reports",
        &[
            (0, message(4, &[0])),
            (1, message(5, &[])),
            (2, message(4, &[1])),
            (1, message(37, &[7, 0])),
            (2, message(37, &[7, 0])),
            (0, message(36, &[])),
        ],
    );
    put(
        "pool",
        &[
            (0, message(32, &[1, 8])),
            (0, message(33, &[4096, 0])),
            (0, message(35, &[0, 0])),
            (0, message(34, &[0])),
        ],
    );
    let mut newer = message(3, &[0, 0]);
    offer(&mut newer, [7, 9, 1, 2, 3]);
    let mut version = message(3, &[0, 0]);
    version[4] = 8;
    put(
        "formats",
        &[(0, newer), (1, version), (2, message(64, &[])), (3, message(200, &[])), (3, message(1, &[]))],
    );
    put(
        "grants",
        &[
            (0, message(16, &[0, 1, 0])),
            (0x10, message(17, &[17])),
            (0x40, message(18, &[0, 1, 0, 5])),
            (0x80, message(23, &[1, 0, 0])),
        ],
    );
    put(
        "server",
        &[
            (0x10, message(16, &[])),
            (0x60, message(16, &[0, 1, 0])),
            (0, message(16, &[])),
            (0, message(16, &[])),
        ],
    );
}
