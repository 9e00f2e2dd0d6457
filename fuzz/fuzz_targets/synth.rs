//! Options of any values: what nccl-synth refuses it refuses with a word, and what it makes has as
//! many lines and calls as its truth says.

#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use nccl_pipe::filter::CallFilter;
use nccl_pipe::stages::steps;
use nccl_pipe::synth::fault::{Fault, FaultKind};
use nccl_pipe::synth::options::size;
use nccl_pipe::synth::options::{
    Damage, HostStyle, LogLayout, Nccl, Options, Prefix, Strategy, SynthEnd, SynthNet,
    SynthTrainer, Timestamps,
};
use nccl_pipe::synth::{StreamSink, generate};
use nccl_pipe_fuzz::{Nobody, Work, adds_up, options as read, report};

/// Mostly small numbers, sometimes any.
fn number(u: &mut Unstructured<'_>) -> Result<u64> {
    match u.int_in_range(0..=15)? {
        0 => u.arbitrary(),
        n => Ok(n),
    }
}

fn maybe(u: &mut Unstructured<'_>) -> Result<Option<u64>> {
    match u.ratio(1, 4)? {
        true => number(u).map(Some),
        false => Ok(None),
    }
}

fn drawn(u: &mut Unstructured<'_>) -> Result<Options> {
    let mut n = || number(u).map(|n| n as usize);
    let (ranks, nodes, tp, pp, ep, cp, layers) = (n()?, n()?, n()?, n()?, n()?, n()?, n()?);
    let small = |n: usize| if n > 15 { n } else { n.max(1) };
    let damage = (0..u.int_in_range(0..=2)?).map(|_| {
        let rate = f64::from(u.int_in_range(0..=12_u8)?) / 10.0;
        Ok((*u.choose(Damage::ALL)?, rate))
    });
    let damage = damage.collect::<Result<Vec<_>>>()?;
    let mut text = String::new();
    if u.ratio(1, 3)? {
        text.push_str(u.choose(FaultKind::NAMES)?);
        for key in ["step", "rank", "host"] {
            if let Some(n) = maybe(u)? {
                text.push_str(&format!(",{key}={n}"));
            }
        }
    }
    Ok(Options {
        seed: u.arbitrary()?,
        ranks: small(ranks),
        nodes: small(nodes).min(4),
        strategy: *u.choose(Strategy::ALL)?,
        tp: small(tp).min(4),
        pp: small(pp).min(3),
        ep: small(ep).min(2),
        cp: small(cp).min(2),
        layers: small(layers),
        steps: number(u)?,
        first_step: maybe(u)?,
        log_interval: number(u)?,
        epoch_steps: maybe(u)?,
        restart_at: maybe(u)?,
        eval_every: maybe(u)?,
        tail_calls: u.arbitrary()?,
        nccl: *u.choose(Nccl::ALL)?,
        trainer: *u.choose(SynthTrainer::ALL)?,
        every_rank: u.arbitrary()?,
        prefix: *u.choose(Prefix::ALL)?,
        timestamps: *u.choose(Timestamps::ALL)?,
        trace: u.arbitrary()?,
        init: u.arbitrary()?,
        split: u.arbitrary()?,
        net: match u.arbitrary()? {
            true => Some(*u.choose(SynthNet::ALL)?),
            false => None,
        },
        nvls: u.arbitrary()?,
        tuning: u.arbitrary()?,
        host_style: *u.choose(HostStyle::ALL)?,
        zero_counts: u.arbitrary()?,
        layout: *u.choose(LogLayout::ALL)?,
        size: None,
        damage,
        fault: text.parse().ok(),
        lead: u.ratio(1, 3)?.then(|| u.int_in_range(0..=4)).transpose()?,
        end: *u.choose(SynthEnd::ALL)?,
    })
}

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let _ = (size::parse(&text), text.parse::<Fault>());
    let Ok(options) = drawn(&mut Unstructured::new(data)) else {
        return;
    };
    // A job of any size may be asked for; here none is made that takes long.
    let large = options.ranks > 16 || options.layers > 16 || options.steps > 16;
    if options.check().is_err() || large || options.first_step > Some(1 << 40) {
        return;
    }
    let mut log = Vec::new();
    let Ok(truth) = generate(&options, &mut StreamSink::new(&mut log)) else {
        return;
    };
    let work = Work::default();
    let (origin, mut report) = (work.file("x.log", &log), report());
    let every = CallFilter::default();
    let _ = steps::list_steps(
        &[origin],
        &read(1, true),
        &every,
        &mut report,
        &Nobody,
        None,
    );
    let account = report.total_account();
    adds_up(account);
    // The truth counts ends of lines: a cut log, or a bar at the end of a rank's file, has a line without one.
    let unfinished = u64::from(log.last().is_some_and(|&last| last != b'\n'));
    assert_eq!(account.lines, truth.lines + unfinished, "{options:?}");
    if options.damage.is_empty() {
        assert_eq!(account.calls, truth.calls, "{options:?}");
    }
});
