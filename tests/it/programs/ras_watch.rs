//! nccl-watch --ras: a job that is asked through NCCL's RAS, played by a server that speaks its protocol as
//! src/ras/client_support.cc of NCCL has it.

use crate::support::{Out, root, run};
use flate2::read::GzDecoder;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// How a server answers to `SET FORMAT json`.
#[derive(Clone, Copy, PartialEq)]
enum Speaks {
    Json,
    /// Before NCCL 2.28.7.
    TextOnly,
}

/// Serves one client.
fn serve(stream: TcpStream, speaks: Speaks, answer: &[u8]) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|n| n > 0) {
        let reply = match line.trim_end() {
            "CLIENT PROTOCOL 2" => "SERVER PROTOCOL 2\n".to_owned(),
            "TIMEOUT 5" => "OK\n".to_owned(),
            "SET FORMAT json" if speaks == Speaks::Json => "OK\n".to_owned(),
            "VERBOSE STATUS" => {
                // The answer comes in pieces.
                for piece in answer.chunks(999) {
                    stream.write_all(piece).unwrap();
                }
                return;
            }
            other => format!("ERROR: Unknown command {other}\n"),
        };
        stream.write_all(reply.as_bytes()).unwrap();
        line.clear();
    }
}

/// Runs nccl-watch against a server that gives one answer after the other, and then the last one again and again.
fn watch(speaks: Speaks, answers: &[Vec<u8>], args: &[&str]) -> Out {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answers = answers.to_vec();
    thread::spawn(move || {
        for (at, stream) in listener.incoming().enumerate() {
            let answer = &answers[at.min(answers.len() - 1)];
            serve(stream.unwrap(), speaks, answer);
        }
    });
    let asked = ["--ras", &address, "--ras-interval", "0.1", "--stall", "1"];
    run("nccl-watch", &[&asked, args].concat())
}

fn sample(path: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(root().join("testdata/ras").join(path)).unwrap();
    if path.ends_with(".gz") {
        let packed = std::mem::take(&mut bytes);
        GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    }
    bytes
}

/// The first answer of a sample that may hold several.
fn first_answer(bytes: &[u8]) -> Vec<u8> {
    let end = bytes
        .windows(3)
        .position(|three| three == b"\n}\n")
        .unwrap();
    bytes[..end + 3].to_vec()
}

#[test]
fn the_rank_that_lags_is_named_once_nothing_moves() {
    let still = first_answer(&sample("skip/ras.json.gz"));
    let text = String::from_utf8(still.clone()).unwrap();
    // One call less everywhere: the job moved between the answers.
    let before = text.replace("\"AllReduce\": 16", "\"AllReduce\": 14");
    assert_ne!(before, text);
    let out = watch(
        Speaks::Json,
        &[before.into_bytes(), still],
        &["--exit-on-stall"],
    );
    assert_eq!(out.code, Some(1), "{out:?}");
    let text = out.text();
    assert!(text.starts_with("8 ranks in "), "{text}");
    assert!(
        text.contains("no rank has launched a collective for 1 s"),
        "{text}"
    );
    assert!(text.contains("error: rank 0 "), "{text}");
}

#[test]
fn a_version_that_has_text_only_is_read_too() {
    let still = sample("stop/ras.txt");
    let out = watch(Speaks::TextOnly, &[still], &["--exit-on-stall"]);
    assert_eq!(out.code, Some(1), "{out:?}");
    assert!(out.text().contains("rank 0"), "{out:?}");
}

#[test]
fn what_is_no_ras_is_refused_with_what_to_do() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            stream
                .unwrap()
                .write_all(b"SSH-2.0-OpenSSH_9.6\r\n")
                .unwrap();
        }
    });
    let out = run("nccl-watch", &["--ras", &address]);
    assert_eq!(out.code, Some(2));
    out.says(&["SERVER PROTOCOL"]);
    let out = run("nccl-watch", &["--ras", "host:port"]);
    assert_eq!(out.code, Some(2));
}

#[test]
fn a_watch_waits_for_its_job() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let still = first_answer(&sample("skip/ras.json.gz"));
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        for stream in TcpListener::bind(address).unwrap().incoming() {
            serve(stream.unwrap(), Speaks::Json, &still);
        }
    });
    let address = address.to_string();
    let asked = ["--ras", &address, "--ras-interval", "0.1", "--stall", "1"];
    let out = run("nccl-watch", &[&asked[..], &["--exit-on-stall"]].concat());
    assert_eq!(out.code, Some(1), "{out:?}");
    out.says(&[&address, "NCCL_RAS_ADDR", "waiting for the job"]);
}

#[test]
fn a_job_that_ended_in_order_ends_the_watch() {
    let moving = first_answer(&sample("skip/ras.json.gz"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        serve(stream, Speaks::Json, &moving);
    });
    let out = run("nccl-watch", &["--ras", &address, "--ras-interval", "0.1"]);
    assert_eq!(out.code, Some(0), "{out:?}");
    assert!(
        out.text().contains("answers no more: the job has ended"),
        "{out:?}"
    );
}
