//! Every recogniser on real logs, where they are at hand: all their steps and nothing else.

use super::{Recogniser, TrainerMark};

type Row = (&'static str, u64, Option<f64>, Option<f64>);

/// Steps without time or speed.
fn plain(name: &'static str, steps: &[u64]) -> Vec<Row> {
    steps.iter().map(|&step| (name, step, None, None)).collect()
}

/// Steps with a time.
fn timed(name: &'static str, steps: &[(u64, f64)]) -> Vec<Row> {
    steps
        .iter()
        .map(|&(step, time)| (name, step, Some(time), None))
        .collect()
}

/// Steps with a speed.
fn fast(name: &'static str, steps: &[(u64, f64)]) -> Vec<Row> {
    steps
        .iter()
        .map(|&(step, speed)| (name, step, None, Some(speed)))
        .collect()
}

/// Steps with both.
fn full(name: &'static str, steps: &[(u64, f64, f64)]) -> Vec<Row> {
    steps
        .iter()
        .map(|&(step, time, speed)| (name, step, Some(time), Some(speed)))
        .collect()
}

/// What is in the logs, read off by eye: file, its steps, and how many other marks it has.
fn read_off() -> Vec<(&'static str, Vec<Row>, usize)> {
    let maxtext: Vec<(u64, f64, f64)> = vec![
        (0, 1.353, 1674.038),
        (1, 12.444, 182.028),
        (2, 0.002, 917_442.589),
        (3, 11.715, 193.354),
        (4, 11.645, 194.526),
        (0, 44.923, 17.022),
        (1, 0.319, 2400.734),
        (2, 5.658, 135.158),
        (3, 5.402, 141.542),
        (4, 5.669, 134.884),
        (5, 5.668, 134.909),
        (6, 5.668, 134.914),
        (7, 5.669, 134.882),
        (8, 5.668, 134.911),
        (9, 5.667, 134.924),
        (8, 0.159, 43.430),
        (9, 0.166, 41.524),
        (1, 0.631, 5688.282),
        (2, 10.228, 350.869),
        (3, 10.344, 346.932),
    ];
    let demo = [
        10.31, 7.549, 7.556, 7.561, 7.566, 7.559, 7.568, 7.565, 7.572, 7.572, 7.568, 7.578, 7.577,
        7.575, 7.58, 7.578, 7.578, 7.584, 7.579, 7.592,
    ];
    let demo: Vec<(u64, f64)> = (0..).zip(demo).collect();
    let nemo2 = [
        full(
            "nemo2",
            &[
                (45, 6.08, 1249.0),
                (46, 6.061, 1252.0),
                (47, 6.082, 1248.0),
                (48, 6.071, 1250.0),
                (49, 6.06, 1253.0),
            ],
        ),
        timed(
            "nemo2",
            &[
                (28, 0.189),
                (29, 0.1903),
                (30, 0.1915),
                (528, 2.443),
                (529, 2.127),
            ],
        ),
        timed("nemo2", &[(120, 0.03146), (121, 0.03163), (49, 2.693)]),
        timed("nemo2", &demo),
    ];
    let deepspeed = [
        plain("deepspeed", &[40, 40, 50, 50, 2650, 2700, 50, 100, 34, 35]),
        plain("hf", &[1999]),
        plain("deepspeed", &[2000, 2000]),
        timed("deepspeed", &[(200, 0.936)]),
    ];
    let neox = [
        full("gpt-neox", &[(1, 10.921, 9.8)]),
        plain("deepspeed", &[2]),
        full("gpt-neox", &[(2, 6.5247, 16.4)]),
        plain("deepspeed", &[11, 11]),
        full("gpt-neox", &[(11, 4.6229, 100.2), (34, 4.1031, 112.9)]),
    ];
    let megatron_deepspeed = [
        plain("deepspeed", &[199]),
        full("megatron-deepspeed", &[(199, 14.2875, 69.85)]),
        plain("deepspeed", &[200, 200]),
        full(
            "megatron-deepspeed",
            &[(5426, 4.2479, 78.36), (5427, 4.2258, 78.77)],
        ),
        full(
            "megatron-deepspeed",
            &[(5, 344.6561, 153.38), (6, 347.3192, 152.20)],
        ),
        full("megatron-deepspeed", &[(4, 15.2328, 25.55)]),
    ];
    let megatron = [
        full(
            "megatron",
            &[
                (43, 5.4449, 239.8),
                (44, 5.5338, 236.0),
                (45, 5.7186, 228.4),
            ],
        ),
        timed("megatron", &[(122, 86.5452), (123, 87.8716), (30, 0.1234)]),
        full(
            "megatron",
            &[
                (1, 271.607, 40.4),
                (4, 270.1254, 449.6),
                (300, 131.0641, 412.3),
            ],
        ),
        timed("megatron", &[(1370, 4.8123), (1, 20.2891)]),
    ];
    let nemo1 = [
        timed("nemo1", &[(8999, 0.615)]),
        plain("nemo1", &[794]),
        timed(
            "nemo1",
            &[
                (99, 3.13),
                (99, 11.2),
                (49, 12.8),
                (49, 24.0),
                (56, 11.3),
                (115, 11.2),
            ],
        ),
        timed("nemo1", &[(6, 49.5), (1999, 1.9), (1999, 68.7), (4, 10.4)]),
    ];
    let titan = [
        (96, 10.92),
        (97, 12.14),
        (4, 314.71),
        (4, 314.69),
        (4, 314.68),
        (5, 313.36),
    ];
    let titan_more = [
        (200, 339.16),
        (210, 323.92),
        (700, 0.0),
        (14, 0.52),
        (97, 12.14),
    ];
    let mlperf_405b = [
        (1152, 54.712_673_187_255_86),
        (2304, 57.626_834_869_384_766),
        (3456, 54.966_133_117_675_78),
    ];
    let nanotron = [
        (991, 0.045, 0.00869),
        (992, 0.0412, 0.0095),
        (1, 4.71, 1.87e-5),
        (2, 0.0118, 0.00744),
    ];
    vec![
        ("axolotl", plain("hf", &[281, 282, 283, 284]), 0),
        ("colossalai", plain("colossalai", &[1, 2]), 0),
        (
            // The other mark is a rate.
            "composer_llmfoundry",
            plain("composer", &[1, 2, 5, 1, 50]),
            1,
        ),
        ("deepspeed", deepspeed.concat(), 0),
        (
            "fairseq",
            plain("fairseq", &[2800, 2900, 100, 445, 33700]),
            0,
        ),
        ("gpt_neox", neox.concat(), 0),
        (
            "hf_trainer",
            plain("hf", &[1, 2, 3, 4, 5, 1, 2, 3, 3, 4, 5, 5]),
            0,
        ),
        (
            "interleaved",
            full("megatron-deepspeed", &[(6, 0.3065, 33.65)]),
            0,
        ),
        (
            "litgpt",
            [
                plain("litgpt", &[610_140, 610_150, 610_160, 1]),
                timed("litgpt", &[(1631, 0.56194), (1632, 0.56315)]),
            ]
            .concat(),
            0,
        ),
        ("maxtext", full("maxtext", &maxtext), 0),
        (
            // The first two are wrapped before their time; the other marks are `Step Time :`.
            "megatron_bridge",
            [
                plain("megatron", &[10, 20]),
                timed("megatron", &[(50, 9.089), (100, 3.7386)]),
            ]
            .concat(),
            10,
        ),
        ("megatron_deepspeed", megatron_deepspeed.concat(), 0),
        ("megatron_lm", megatron.concat(), 0),
        ("metaseq", vec![], 0),
        (
            // The other marks are two evaluations' beginnings and ends.
            "mlperf",
            [
                plain("mlperf", &[2000, 2080, 2160, 2240]),
                timed("mlperf", &mlperf_405b),
            ]
            .concat(),
            4,
        ),
        ("nanotron", full("nanotron", &nanotron), 0),
        ("nccl_tests", vec![], 0),
        ("nemo1_pbar", nemo1.concat(), 0),
        ("nemo2", nemo2.concat(), 0),
        ("olmo_core", plain("olmo-core", &[1, 2, 1, 2, 3]), 0),
        ("openrlhf", plain("openrlhf", &[1, 2, 2, 2]), 0),
        (
            "torchtitan",
            fast("torchtitan", &[&titan[..], &titan_more[..]].concat()),
            0,
        ),
        (
            // A bar of torchtune without its description looks as one of Hugging Face does.
            "torchtune",
            [
                plain("hf", &[1]),
                plain("torchtune", &[1, 1, 2, 2, 1, 0, 1]),
            ]
            .concat(),
            0,
        ),
        (
            "verl",
            [timed("verl", &[(2, 96.551)]), plain("verl", &[2, 0, 1])].concat(),
            0,
        ),
    ]
}

#[test]
fn every_step_of_the_real_logs_is_found_and_nothing_else() {
    let Some(folder) = crate::shared::data("trainers") else {
        return;
    };
    let mut files = std::fs::read_dir(&folder).unwrap().count();
    for (name, want, others) in read_off() {
        let log = std::fs::read(folder.join(format!("{name}.log"))).unwrap();
        let mut found = Vec::new();
        for line in log
            .split(|&b| b == b'\n')
            .filter(|line| !line.starts_with(b"#@"))
        {
            Recogniser::all().marks(line, &mut found);
        }
        let got: Vec<Row> = found
            .iter()
            .filter_map(|found| match found.mark {
                TrainerMark::Step(l) => Some((l.trainer.name(), l.step, l.time_s, l.tflops)),
                _ => None,
            })
            .collect();
        assert_eq!(got, want, "steps of {name}");
        assert_eq!(found.len() - got.len(), others, "other marks of {name}");
        files -= 1;
    }
    assert_eq!(files, 0, "logs without a list");
}
