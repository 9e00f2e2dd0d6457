//! The step lines of many trainers through the whole programs: their numbers, their calls, and
//! on what basis a step's time is given.

use crate::support::{Csv, arg, data, feed, procs, run};

/// A log of one process: a call before each of the lines.
fn log(lines: &[&str]) -> String {
    let p = procs(1)[0];
    (1_u64..)
        .zip(lines)
        .map(|(n, line)| format!("{}\n{line}\n", p.call("AllReduce", n, 7)))
        .collect()
}

/// The notes on where step times and numbers come from.
const STAMPS: &str = "computed from the lines' time stamps";
const THROUGHPUT: &str = "the log's batch size divided by the samples per second";
const SMOOTHED: &str = "a moving average over the last steps";
const CLOCK: &str = "computed from the elapsed time";
const COUNTED: &str = "count samples or tokens";
const EPOCHS: &str = "count epochs of 3 steps: a step here is an epoch";
const SAMPLES: &str = "reports no batch size";

/// The columns of each row, with a blank between.
fn fields(table: &Csv, columns: &[&str]) -> Vec<String> {
    let row = |row: &Vec<String>| {
        let fields: Vec<&str> = columns.iter().map(|c| table.get(row, c)).collect();
        fields.join(" ").trim_end().to_owned()
    };
    table.rows.iter().map(row).collect()
}

/// `segment step calls time_s` of each row of the list, and the same times in nccl-timing.
#[track_caller]
fn holds(trainer: &str, lines: &[&str], rows: &[&str], notes: &[&str]) {
    let text = log(lines);
    for args in [&["--list"][..], &["--list", "--trainer", trainer]] {
        let out = feed("nccl-steps", args, text.as_str()).ends(0).says(notes);
        for note in [
            STAMPS, THROUGHPUT, SMOOTHED, CLOCK, COUNTED, EPOCHS, SAMPLES,
        ] {
            let wanted = notes.contains(&note);
            assert_eq!(
                out.stderr.contains(note),
                wanted,
                "{trainer}: {}",
                out.stderr
            );
        }
        let table = Csv::of(&out);
        let got = fields(&table, &["segment", "step", "calls", "time_s"]);
        assert_eq!(got, rows, "{trainer} {args:?}");
    }
    let table = Csv::of(&feed("nccl-timing", &["--per-step"], text.as_str()).ends(0));
    let timed = fields(&table, &["segment", "step", "time_s"]);
    let wanted: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let fields: Vec<&str> = row.split(' ').collect();
            let step = fields.get(1)?.parse::<u64>().ok()?;
            let time = fields.get(3).unwrap_or(&"");
            Some(format!("{} {step} {time}", fields[0]).trim_end().to_owned())
        })
        .collect();
    assert_eq!(timed, wanted, "{trainer}");
}

#[test]
fn mxnet() {
    let lines = [
        r#":::MLLOG {"time_ms": 1, "key": "global_batch_size", "value": 200, "metadata": {}}"#,
        "2020-07-10 18:52:44,000 Node[0] Epoch[0] Batch [0-20]\tSpeed: 1000.00 samples/sec\taccuracy=0.1",
        "2020-07-10 18:52:48,000 Node[0] Epoch[0] Batch [20-40]\tSpeed: 1000.00 samples/sec\taccuracy=0.2",
        "2020-07-10 18:52:50,000 Node[0] Epoch[0] Validation-accuracy=0.3",
        "2020-07-10 18:52:54,000 Node[0] Epoch[1] Batch [0-20]\tSpeed: 800.00 samples/sec\taccuracy=0.3",
    ];
    let rows = ["0 20 2 0.2", "0 40 1 0.2", " between 1", "1 20 1 0.25"];
    holds("mxnet", &lines, &rows, &[THROUGHPUT]);
    // Without a batch size the stamps are left.
    let rows = ["0 20 1", "0 40 1 0.2", " between 1", "1 20 1"];
    holds("mxnet", &lines[1..], &rows, &[STAMPS]);
    let lines = [
        "INFO:root:[Training][Iteration 100][Epoch 1, Batch 100/115] lr: 0.06240, training time: \
         229.395 [ms], speed: 4463.911 [imgs/sec], loss=8.1",
        "[Training][Iteration 200][Epoch 2, Batch 85/115] lr: 0.06240, training time: 230.5 [ms], \
         speed: 4463.911 [imgs/sec], loss=7.1",
    ];
    holds(
        "mxnet",
        &lines,
        &["0 100 1 0.229395", "0 200 1 0.2305"],
        &[],
    );
}

#[test]
fn maskrcnn_and_detectron2() {
    let lines = [
        "2020-06-25 16:26:13,365 maskrcnn_benchmark.trainer INFO: eta: 4:58:35  iter: 50  time: \
         0.0544 (0.0621)  loss: 1.4253 (2.3632)  max mem: 2301",
        "INFO:maskrcnn_benchmark.trainer:eta: 4:58:35  iter: 100  loss: 1.4253 (2.3632)  time: \
         0.0550 (0.0610)  max mem: 2301",
        "[05/19 12:00:00 d2.utils.events]:  eta: 0:41:22  iter: 150  total_loss: 1.2  time: \
         0.0560  last_time: 0.2312  data_time: 0.01  lr: 1.6e-05  max_mem: 2301M",
    ];
    let rows = ["0 50 1 0.0544", "0 100 1 0.055", "0 150 1 0.056"];
    holds("maskrcnn", &lines, &rows, &[]);
}

#[test]
fn torchvision() {
    let line = |epoch, n, time| {
        format!(
            "0: Epoch: [{epoch}]  [{n:4}/4572]  eta: 0:16:47    time: {time}  data: 0.0009  max mem: 2"
        )
    };
    let lines = [
        line(0, 0, "1.5"),
        line(0, 20, "0.28"),
        "0: Test:  [ 60/194]  eta: 0:00:43  model_time: 0.2 (0.3)  time: 0.2  max mem: 1"
            .to_owned(),
        line(1, 0, "0.3"),
        line(1, 20, "0.29"),
    ];
    let lines = lines.each_ref().map(String::as_str);
    let rows = [
        "0 0 1 1.5",
        "0 20 1 0.28",
        " between 1",
        "1 0 1 0.3",
        "1 20 1 0.29",
    ];
    holds("torchvision", &lines, &rows, &[]);
}

#[test]
fn hugectr_without_its_evaluations() {
    let lines = [
        "[HUGECTR][07:25:18][INFO][RANK0]: Iter: 3000 Time(1000 iters): 2.356864s Loss: 0.000000",
        "[20d02h08m31s][HUGECTR][INFO]: Eval Time for 1613 iters: 1.519783s",
        "[20d02h08m31s][HUGECTR][INFO]: Iter: 4000 Time(1000 iters): 3.872208s Loss: 0.1 lr:24.0",
        "[HCTR][06:43:51.335][INFO][RK0][main]: Iter: 5000 Time(1000 iters): 2.355158s Loss: 0.1",
    ];
    let rows = [
        "0 3000 1 0.002356864",
        " between 1",
        "0 4000 1 0.002352425",
        "0 5000 1 0.002355158",
    ];
    holds("hugectr", &lines, &rows, &[]);
}

#[test]
fn dllogger_and_rnnt() {
    let lines = [
        "DLL 2025-04-27 22:27:25.391486 - Iteration 0 | train_acc : 0.0 % | iteration_time : 194.40 ms | x : 1",
        "DLL 2025-04-27 22:27:26.391486 - Iteration 1 | train_acc : 0.0 % | iteration_time : 94.5 ms | x : 1",
    ];
    holds("dllogger", &lines, &["0 0 1 0.1944", "0 1 1 0.0945"], &[]);
    // `took` is since the line before, or since the epoch began.
    let lines = [
        "DLL 2021-05-19 10:33:11.034765 - epoch   10 | iter    4/272 | loss 52.9 | utts/s 33 | took  2.00 s | lrate 4e-03",
        "DLL 2021-05-19 10:33:12.034765 - epoch   10 | iter   14/272 | loss 52.9 | utts/s 33 | took  3.00 s | lrate 4e-03",
        "DLL 2021-05-19 10:33:12.234765 - epoch   10 |   dev ema wer   9.14 | took  0.46 s",
        "DLL 2021-05-19 10:33:13.034765 - epoch   11 | iter    6/272 | loss 52.9 | utts/s 33 | took  3.00 s | lrate 4e-03",
    ];
    let rows = ["0 4 1 0.5", "0 14 1 0.3", " between 1", "1 6 1 0.5"];
    holds("dllogger", &lines, &rows, &[]);
}

#[test]
fn reference_programs() {
    let lines = [
        "Epoch: [0][  0/5005]\tTime  2.512 ( 2.512)\tData  0.1 ( 0.2)\tLoss 6.9 (7.0)",
        "Epoch: [0][ 10/5005]\tTime  0.512 ( 0.630)\tData  0.1 ( 0.2)\tLoss 6.9 (7.0)",
        "Test: [ 10/196]\tTime  0.5 ( 0.6)\tLoss 1.0",
        "0: TRAIN [1][10/321]\tTime 0.071 (0.081)\tData 6.87e-05 (2.28e-02)\tTok/s 51109 (33464)",
    ];
    let rows = ["0 0 1 2.512", "0 10 1 0.512", " between 1", "1 10 1 0.071"];
    holds("imagenet", &lines, &rows, &[]);
    let lines = [
        ":::MLL 1560722678.927 global_batch_size: {\"value\": 1680, \"metadata\": {}}",
        "Iteration:     20, Loss function: 20.490, Average Loss: 0.450, avg. samples / sec: 33600.0",
        "Iteration:     40, Loss function: 19.170, Average Loss: 0.835, avg. samples / sec: 42000.0",
    ];
    holds(
        "ssd",
        &lines,
        &["0 20 2 0.05", "0 40 1 0.04"],
        &[THROUGHPUT],
    );
    let lines = [
        "0: {'training_steps': 6, 'step_loss': 5.3, 'seq/s': 110.8, 'global_steps': 0, 'skipped_steps': 1, 'timestamp': 1593152763.119}",
        "0: {'training_steps': 12, 'step_loss': 7.0, 'seq/s': 393.8, 'global_steps': 1, 'skipped_steps': 1, 'timestamp': 1593152763.869}",
    ];
    holds("bert", &lines, &["0 1 1", "0 2 1 0.75"], &[STAMPS]);
    let lines = [
        "Finished training it 128/128028 of epoch 0, 71.86 ms/it, loss 0.200952, accuracy 91.433 %",
        "Finished training it 128/128028 of epoch 0, 71.80 ms/it, loss 0.200263, accuracy 91.466 %",
        "Finished training it 256/128028 of epoch 0, 69.51 ms/it, loss 0.140974, accuracy 96.732 %",
    ];
    holds("dlrm", &lines, &["0 128 1 0.07186", "0 256 2 0.06951"], &[]);
    let lines = [
        "Epoch:[0/1] [592/75869]  eta: 0:14:24  loss: 0.1482  step_time: 11.4794 ms  lr: 5.175273",
        "Epoch:[0/1] [1184/75869]  eta: 0:04:18  loss: 0.1346  step_time: 3.4589 ms  lr: 10.341818",
    ];
    holds(
        "dlrm",
        &lines,
        &["0 592 1 0.0114794", "0 1184 1 0.0034589"],
        &[],
    );
    let event = |time, step| {
        format!(
            "[2025-04-21T23:53:{time}] [426] [22b7ca89] [AtorchTrainerV2] [#step] [END] {{\"global_step\": {step}, \"epoch\": 0.1}}"
        )
    };
    let lines = [event("35.596206", 177_019), event("37.096206", 177_020)];
    let lines = lines.each_ref().map(String::as_str);
    holds(
        "dlrover",
        &lines,
        &["0 177019 1", "0 177020 1 1.5"],
        &[STAMPS],
    );
}

/// A record of MLPerf's.
fn mllog(time_ms: u64, key: &str, value: &str, metadata: &str) -> String {
    format!(
        r#":::MLLOG {{"namespace": "", "time_ms": {time_ms}, "event_type": "POINT_IN_TIME", "key": "{key}", "value": {value}, "metadata": {{"file": "a.py", "lineno": 5, {metadata}}}}}"#
    )
}

#[track_caller]
fn mlperf(lines: &[String], rows: &[&str], notes: &[&str]) {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    holds("mlperf", &lines, rows, notes);
}

#[test]
fn mlperfs_samples_are_steps_over_the_batch_size() {
    let loss = |ms, samples: u64| {
        mllog(
            ms,
            "train_loss",
            "1.9",
            &format!(r#""samples_count": {samples}, "lr": 0.1"#),
        )
    };
    let at = |samples: u64| format!(r#""samples_count": {samples}"#);
    let lines = [
        mllog(0, "global_batch_size", "64", r#""x": 1"#),
        loss(10_000, 640),
        loss(18_000, 1280),
        loss(26_000, 1920),
        // The end of a block, its mean, and the evaluation of step 32.
        mllog(
            27_600,
            "tracked_stats",
            r#"{"throughput": 82.2}"#,
            r#""step": 2048"#,
        ),
        mllog(27_600, "block_stop", "null", &at(2048)),
        mllog(27_600, "eval_start", "null", &at(2048)),
        mllog(30_000, "eval_stop", "null", &at(2048)),
        loss(36_400, 2560),
    ];
    // The steps of one line are before and after the evaluation.
    let rows = [
        "0 10 2",
        "0 20 1 0.8",
        "0 30 1 0.8",
        " between 1",
        "0 40 4 0.8",
    ];
    mlperf(&lines, &rows, &[STAMPS, COUNTED]);
    let rows = ["0 640 1", "0 1280 1", "0 1920 1", " between 1", "0 2560 4"];
    mlperf(&lines[1..], &rows, &[SAMPLES]);
}

#[test]
fn mlperfs_step_is_a_step_unless_the_log_shows_otherwise() {
    let stats = |ms, time: &str, metadata: &str| {
        let value = format!(r#"{{"train_step_time": {time}, "reduced_train_loss": 8.0}}"#);
        mllog(ms, "tracked_stats", &value, metadata)
    };
    let both = [
        mllog(0, "global_batch_size", "32", r#""x": 1"#),
        stats(20_000, "0.5424", r#""step": 31.0, "samples_count": 1024.0"#),
        stats(37_500, "0.5429", r#""step": 63.0, "samples_count": 2048.0"#),
        mllog(
            37_600,
            "tracked_stats",
            r#"{"train_step_time": 0.59}"#,
            r#""samples_count": 24576"#,
        ),
        mllog(
            37_700,
            "tracked_stats",
            r#"{"validation_step_time": 0.1}"#,
            r#""step": 0, "samples_count": 32"#,
        ),
        stats(55_000, "0.5552", r#""step": 95.0, "samples_count": 3072.0"#),
    ];
    let rows = ["0 31 2 0.5424", "0 63 1 0.5429", "0 95 3 0.5552"];
    mlperf(&both, &rows, &[]);
    // Samples: a step of 1152 takes as long as from line to line.
    let samples = [
        mllog(0, "global_batch_size", "1152", r#""x": 1"#),
        stats(60_000, "54.7", r#""step": 1152.0"#),
        stats(117_000, "57.6", r#""step": 2304.0"#),
        stats(172_000, "54.9", r#""step": 3456.0"#),
    ];
    mlperf(
        &samples,
        &["0 1 2 54.7", "0 2 1 57.6", "0 3 1 54.9"],
        &[COUNTED],
    );
    let losses = |ms, step: u64| {
        let metadata = format!(
            r#""samples_count": {}, "lr": 0.1, "step": {step}"#,
            step * 16
        );
        mllog(ms, "tracked_stats", r#"{"train_loss": 2.35}"#, &metadata)
    };
    let lines = [losses(0, 10), losses(13_600, 20), losses(27_200, 30)];
    mlperf(&lines, &["0 10 1", "0 20 1 1.36", "0 30 1 1.36"], &[STAMPS]);
    // Epochs of three iterations, with the samples a second of all.
    let epochs = |step: u64| {
        let value = r#"{"throughput": 168.0, "iterations": 3, "loss_scale": 65536.0}"#;
        mllog(
            step * 1000,
            "tracked_stats",
            value,
            &format!(r#""step": {step}"#),
        )
    };
    let batch = mllog(0, "global_batch_size", "56", r#""x": 1"#);
    let lines = [batch, epochs(1), epochs(20), epochs(40)];
    mlperf(
        &lines,
        &["0 1 2 1", "0 20 1 1", "0 40 1 1"],
        &[EPOCHS, THROUGHPUT],
    );
}

#[test]
fn rates_and_clocks_of_bars() {
    // One-second steps: the bar's clock is too coarse, and its moving average is taken.
    let bar = |n, clock: &str, rate: &str| format!(" 32%|██▏ | {n}/873 [{clock}<52:46,  {rate}]");
    let lines = [
        bar(1, "00:01", "1.25s/it"),
        bar(2, "00:02", "4.00it/s"),
        bar(3, "00:02", "?it/s"),
    ];
    let lines = lines.each_ref().map(String::as_str);
    holds(
        "hf",
        &lines,
        &["0 1 1 1.25", "0 2 1 0.25", "0 3 1"],
        &[SMOOTHED],
    );
    let lines = [
        bar(1, "00:12", "12.28s/it"),
        bar(2, "00:23", "11.66s/it"),
        bar(3, "00:43", "14.04s/it"),
    ];
    let lines = lines.each_ref().map(String::as_str);
    holds(
        "hf",
        &lines,
        &["0 1 1 12", "0 2 1 11", "0 3 1 20"],
        &[CLOCK],
    );
    // Lightning's rate is the mean since the epoch began, and so a clock.
    let bar =
        |n, rate: &str| format!("Epoch 0:   5%|▌   | {n}/40 [00:00<00:07,  {rate}, loss=0.2]");
    let lines = [bar(1, "1.00it/s"), bar(2, "1.60it/s"), bar(3, "2.00it/s")];
    let lines = lines.each_ref().map(String::as_str);
    holds(
        "lightning",
        &lines,
        &["0 1 1 1", "0 2 1 0.25", "0 3 1 0.25"],
        &[CLOCK],
    );
    // An evaluation is in no step's time, nor in the clock's.
    let lines = [
        bar(1, "1.00it/s"),
        "{'eval_loss': 1.0}".to_owned(),
        bar(2, "0.20it/s"),
    ];
    let lines = lines.each_ref().map(String::as_str);
    holds(
        "lightning",
        &lines,
        &["0 1 1 1", " between 1", "0 2 1"],
        &[CLOCK],
    );
    let lines = [
        "[batch=1/10]:",
        "\t Train throughput/batches_per_sec: 0.2500",
        "[batch=2/10]:",
        "\t Train throughput/batches_per_sec: 0.5000",
    ];
    holds(
        "composer",
        &lines,
        &["0 1 1 4", "0 2 2 2", " after 1"],
        &[SMOOTHED],
    );
    let lines = [
        "INFO 08-11 10:10:10 ppo_trainer.py:547] ✨ Global step 1: {'policy_loss': 0.0}",
        "INFO 08-11 10:12:10 ppo_trainer.py:547] ✨ Global step 2: {'policy_loss': 0.0}",
    ];
    holds("openrlhf", &lines, &["0 1 1", "0 2 1 120"], &[STAMPS]);
    let line = |updates, wall| {
        format!(
            "| epoch 001:   {updates} / 2184 loss=46.8, ups=3.0, num_updates={updates}, wall={wall}"
        )
    };
    let lines = [line(1000, 328), line(2000, 528)];
    let lines = lines.each_ref().map(String::as_str);
    holds(
        "fairseq",
        &lines,
        &["0 1000 1 0.328", "0 2000 1 0.2"],
        &[CLOCK],
    );
}

/// Real logs: the trainer's steps, the median of their time, and the range they must be in.
#[test]
fn real_logs_have_the_steps_that_their_throughput_says() {
    for (log, steps, interval, median) in [
        ("wild/oracle_64_llama2_v5.0.txt", 11, "10", 0.778),
        ("wild/mango_mi300x_4node_v5.0.txt", 38, "10", 1.405),
        ("wild/dell_llama31_8b_b200_v5.1.txt", 192, "32", 0.573),
        ("wild/dell_llama2_2xb200_v5.1.txt", 26, "10", 1.386),
        ("wild/azure_maskrcnn_n4.txt", 259, "50", 0.059),
        ("wild/azure_hugectr_dlrm.txt", 68, "1000", 0.00147),
        ("wild/azure_mxnet_unet3d_n9.txt", 104, "20", 0.0952),
        ("wild/alibaba_resnet_v0.7.log", 779, "20", 0.1486),
        ("wild/dell_retinanet_h200_warn_v5.1.txt", 923, "20", 0.1042),
        ("wild/dell_rgat_warn_v5.0.txt", 2793, "1", 0.0795),
        (
            "nccl-logs/nemo-2.22.3-512ranks-shutdown-warns.log",
            13,
            "10",
            0.556,
        ),
    ] {
        let Some(path) = data(log) else { continue };
        let table = Csv::of(&run("nccl-steps", &["--list", arg(&path)]));
        let numbered: Vec<_> = table
            .rows
            .iter()
            .filter(|row| table.get(row, "step").parse::<u64>().is_ok())
            .collect();
        assert_eq!(numbered.len(), steps, "{log}");
        let mut times: Vec<f64> = numbered
            .iter()
            .filter_map(|row| table.get(row, "time_s").parse().ok())
            .collect();
        assert!(times.len() + 41 > steps, "{log}: {}", times.len());
        times.sort_by(f64::total_cmp);
        let middle = times[times.len() / 2];
        assert!((middle / median - 1.0).abs() < 0.02, "{log}: {middle}");
        assert!(times.iter().all(|time| *time < 5.0 * median), "{log}");
        let often = numbered
            .iter()
            .filter(|row| table.get(row, "steps") == interval)
            .count();
        assert!(10 * often > 8 * steps, "{log}: {often}");
    }
}

#[test]
fn toolkits_print_the_time_of_a_step_or_of_all_since_the_line_before() {
    let head = "07/03 13:04:17 - mmengine - INFO - Epoch(train)  ";
    let mmengine = [
        "[1][ 10/196]  lr: 3.3e-04  eta: 0:13:14  time: 0.4073  data_time: 0.0335  loss: 6.1",
        "[1][ 20/196]  lr: 3.3e-04  eta: 0:09:39  time: 0.1904  data_time: 0.0327  loss: 2.5",
        "[2][ 10/196]  lr: 3.3e-04  eta: 0:08:32  time: 0.1993  data_time: 0.0342  loss: 2.4",
    ]
    .map(|line| format!("{head}{line}"));
    let lines = mmengine.each_ref().map(String::as_str);
    let rows = ["0 10 1 0.4073", "0 20 1 0.1904", "1 10 1 0.1993"];
    holds("mmengine", &lines, &rows, &[]);
    let lines = [
        "[2022-08-31 14:25:49,741] [    INFO] - loss: 1.2, learning_rate: 3e-05, global_step: 10, \
         interval_runtime: 6.8718, interval_steps_per_second: 1.455, epoch: 0.0016",
        "[2022-08-31 14:25:55,321] [    INFO] - loss: 1.1, learning_rate: 3e-05, global_step: 20, \
         interval_runtime: 5.5807, interval_steps_per_second: 1.792, epoch: 0.0033",
    ];
    holds("paddle", &lines, &["0 10 1 0.68718", "0 20 1 0.55807"], &[]);
    let lines = [
        "[n] 2026-04-23 04:59:25,764 (trainer:793) INFO: 1epoch:train:1-90batch: iter_time=0.003, \
         forward_time=0.095, train_time=0.734",
        "[n] 2026-04-23 04:59:37,331 (trainer:793) INFO: 1epoch:train:91-180batch: \
         iter_time=0.003, forward_time=0.055, train_time=0.514",
    ];
    holds("espnet", &lines, &["0 90 1 0.734", "0 180 1 0.514"], &[]);
    let lines = [
        "step 00000/21400 (0.00%) | loss: 7.1 | lrm: 1.00 | dt: 1200.00ms | tok/sec: 436,906",
        "step 00001/21400 (0.00%) | loss: 7.0 | lrm: 1.00 | dt: 1100.00ms | tok/sec: 436,906",
    ];
    holds("nanochat", &lines, &["0 0 1 1.2", "0 1 1 1.1"], &[]);
    let lines = [
        "epoch 0 step 1/16 - loss 7.8",
        "epoch 0 step 2/16 - loss 7.7",
    ];
    holds("epoch-step", &lines, &["0 1 1", "0 2 1"], &[]);
}
