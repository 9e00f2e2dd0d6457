//! What holds of every message: whole, cut anywhere, and any bytes at all.

use super::*;
use proptest::prelude::*;

/// A line of each shape.
const LINES: [&str; 60] = [
    "comm 0x7e rank 15 nranks 64 cudaDev 0 nvmlDev 0 - Init COMPLETE",
    "[Rank 1] ncclCommInitRankConfig comm 0x7e rank 1 nranks 2 cudaDev 0 commId 0xa6 - Init START",
    "ncclCommSplit comm 0x9 rank 0 nranks 4 cudaDev 0 parent 0x5 splitCount 1 color 20 key 0- Init START",
    "comm 0x9 rank 1 nranks 4 cudaDev 1 busId 44000 - Destroy COMPLETE",
    "comm 0x2152b590 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
    "Init timings: rank 0 nranks 24 total 3.45 (kernels 0.33, bootstrap 2.75, rest 0.00)",
    "Bootstrap timings total 0.157689 (create 0.000029, delay 0.000000)",
    "NCCL_IB_TIMEOUT set by environment to 18.",
    "NCCL_IB_HCA set to mlx5_0,mlx5_1",
    "Comm config Blocking set to 1",
    "NCCL version 2.29.2+cuda13.1",
    "NCCL git version stable 07fa371c7",
    "cudaDriverVersion 13010",
    "NET/Plugin: Could not find: libnccl-net.so",
    "NET/Plugin: Loaded net plugin AWS Libfabric (v6)",
    "Assigned NET plugin IB to comm",
    "Using network IBext_v9",
    "NET/IB : Using [0]mlx5_2:1/RoCE [1]mlx5_3:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
    "NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [RO]; OOB eth0:10.0.0.1<0>",
    "NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:fe80::c0%eth1<0>",
    "Bootstrap : Using [0]ib0:10.0.0.1<0> [1]ib1:10.0.1.1<0>",
    "NET/IB : No device found.",
    "NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 7 'mlx5_14",
    "GPU Direct RDMA Enabled for GPU 7 / HCA 7 (distance 5 <= 5), read 0 mode Default",
    "DMA-BUF is available on GPU device 3",
    "NET/IB: NCCL Dev 6 IbDev 6 Port 1 qpn 975 mtu 5 query_ece={supported=1} GID 3",
    "NET/OFI Selected Provider is efa (found 16 nics)",
    "Channel 03/0 : 4[4] -> 11[3] [send] via NET/IBext_v10/3(3)/GDRDMA/Shared",
    "Channel 14/0 : 15[7] -> 14[6] via P2P/CUMEM",
    "Channel 31 : 1[200000] -> 0[100000] via P2P/direct pointer/read",
    "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
    "CollNet 07 : 63 [receive] via COLLNET/SHARP/7/GDRDMA",
    "Ring 00 : 26[2] -> 30[6] via P2P/IPC",
    "Channel 00/0 : 16[17000] -> 18[21000] via P2P/IPC comm 0x5609 nRanks 32",
    "Channel 00/02 :    0   1   2   3",
    "Channel 00/128      0",
    "Ring 00 : 7 -> 0 -> 1",
    "Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1",
    "Trees [0] 15/-1/-1->12->8|8->12->15/-1/-1 [1] 8/-1/-1->12->15|15->12->8/-1/-1",
    "Tree 0 : -1 -> 0 -> 1/-1/-1",
    "Connected all rings, use ring PXN 0 GDR 1",
    "Connected NVLS tree",
    "16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer",
    "Pattern 4, crossNic 0, nChannels 8, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1",
    "P2P Chunksize set to 524288",
    "NVLS multicast support is not available on dev 1",
    "NVLS comm 0x7f94 headRank -1 nHeads 4 buffSize 1 nvlsPerRankSize 100 nvlsTotalSize 402",
    "NVLS Head  4:  4 12",
    "40 Bytes -> Algo 1 proto 0 time 8.616000",
    "AllGather: 37756928 Bytes -> Algo 1 proto 2 time 2860.208008",
    "AllReduce: 8589934592 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}",
    "transport/net.cc:1302 -> 6",
    "proxy.cc:878 -> 6 [Progress Thread]",
    "## [170260.347287] [07:00] 000001 KL HWID 42300700 ncclDevFunc_AllReduce_RING nw 4 nRanks 8",
    "=== System : maxBw 160.0 totalBw 160.0 ===",
    "                 + NET[1.2] - NET/0-0 (0/a/0/1.250000)",
    "RAS client listening socket at 127.0.0.1<28028>",
    "New proxy send connection 0 from local rank 0, transport 0",
    "MNNVL busId 0x41000 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0",
    "    Broadcast |     0.0/   0.0 |",
];

fn of(line: &str) -> NcclMessage<'_> {
    parse_message(HeaderLevel::Info, line.as_bytes()).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn every_shape_is_understood() {
    for line in LINES {
        of(line);
        assert_eq!(
            of(&format!("{line} \t")).family(),
            of(line).family(),
            "{line}"
        );
    }
    let plain = LINES
        .iter()
        .filter(|line| matches!(of(line), NcclMessage::Plain(..)));
    assert_eq!(plain.count(), 6);
}

/// The numbers in a value, as it prints itself.
fn numbers(message: &NcclMessage<'_>) -> Vec<String> {
    let text = format!("{message:?}");
    let digits = |c: char| !c.is_ascii_digit() && c != '.';
    text.split(digits)
        .filter(|n| !n.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_line_cut_behind_a_number_or_a_word_has_no_other_numbers() {
    for line in LINES {
        let all = numbers(&of(line));
        for cut in 1..line.len() {
            let text = &line[..cut];
            let ends = text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-');
            if ends {
                continue;
            }
            let Some(got) = parse_message(HeaderLevel::Info, text.as_bytes()) else {
                continue;
            };
            // A text's bytes are printed as numbers too: they are compared as a text.
            if matches!(
                got,
                NcclMessage::Plain(..) | NcclMessage::Plugin(_) | NcclMessage::Setting(_)
            ) {
                continue;
            }
            for number in numbers(&got) {
                assert!(
                    all.contains(&number),
                    "{number} of {text:?} is not of {line:?}: {got:?}"
                );
            }
        }
    }
}

#[test]
fn of_a_line_known_to_be_cut_only_whole_items_are_given() {
    for line in LINES {
        for end in 0..=line.len() {
            match parse_cut_message(HeaderLevel::Info, &line.as_bytes()[..end]) {
                None => {}
                Some(NcclMessage::Graph(graph::GraphMessage::Trees(got))) => {
                    let NcclMessage::Graph(graph::GraphMessage::Trees(all)) = of(line) else {
                        panic!("{line}")
                    };
                    let (got_all, all): (Vec<_>, Vec<_>) =
                        (got.iter().collect(), all.iter().collect());
                    assert!(got.cut && all.starts_with(&got_all), "{line} {end}");
                }
                Some(NcclMessage::Graph(graph::GraphMessage::Ring(got))) => {
                    let NcclMessage::Graph(graph::GraphMessage::Ring(all)) = of(line) else {
                        panic!("{line}")
                    };
                    let (got_all, all): (Vec<_>, Vec<_>) =
                        (got.ranks().collect(), all.ranks().collect());
                    assert!(got.cut && all.starts_with(&got_all), "{line} {end}");
                }
                Some(NcclMessage::Net(net::NetMessage::Nics(got))) => {
                    let NcclMessage::Net(net::NetMessage::Nics(all)) = of(line) else {
                        panic!("{line}")
                    };
                    let (got_all, all): (Vec<_>, Vec<_>) =
                        (got.iter().collect(), all.iter().collect());
                    assert!(got.cut && all.starts_with(&got_all), "{line} {end}");
                }
                Some(NcclMessage::Nvls(nvls::NvlsMessage::Head(got))) => {
                    let NcclMessage::Nvls(nvls::NvlsMessage::Head(all)) = of(line) else {
                        panic!("{line}")
                    };
                    let (got_all, all): (Vec<_>, Vec<_>) =
                        (got.ranks().collect(), all.ranks().collect());
                    assert!(got.cut && all.starts_with(&got_all), "{line} {end}");
                }
                Some(other) => panic!("{other:?} is no list, and its end is missing"),
            }
        }
    }
}

#[test]
fn levels_decide_first() {
    let warn = parse_message(HeaderLevel::Warn, b"Call to ibv_open_device failed").unwrap();
    assert_eq!(warn.family(), MessageFamily::Warn);
    assert_eq!(parse_message(HeaderLevel::Warn, b""), None);
    let call = parse_message(HeaderLevel::Call, b"ncclGroupStart()").unwrap();
    assert_eq!(call.family(), MessageFamily::Call);
    assert_eq!(
        parse_message(HeaderLevel::Trace, b"Connected all rings"),
        None
    );
    let coll = b"AllReduce: opCount 1 sendbuff 0x1 recvbuff 0x2 count 1 datatype 7 op 0 root 0";
    assert_eq!(parse_message(HeaderLevel::Info, coll), None);
    assert_eq!(parse_message(HeaderLevel::Info, b""), None);
    assert_eq!(parse_message(HeaderLevel::Info, b"step 4 done"), None);
}

/// Takes all that a value gives.
fn walk(message: &NcclMessage<'_>) -> usize {
    match message {
        NcclMessage::Timings(timings) => timings.parts().count(),
        NcclMessage::Net(net::NetMessage::Nics(nics)) => nics.iter().count(),
        NcclMessage::Graph(graph::GraphMessage::Trees(trees)) => trees.iter().count(),
        NcclMessage::Graph(graph::GraphMessage::Ring(ring)) => ring.ranks().count(),
        NcclMessage::Nvls(nvls::NvlsMessage::Head(head)) => head.ranks().count(),
        _ => 0,
    }
}

fn take(bytes: &[u8]) {
    for level in [
        HeaderLevel::Info,
        HeaderLevel::Warn,
        HeaderLevel::Attention,
        HeaderLevel::Call,
        HeaderLevel::Trace,
        HeaderLevel::Other,
    ] {
        for message in [parse_message(level, bytes), parse_cut_message(level, bytes)]
            .into_iter()
            .flatten()
        {
            walk(&message);
            let _ = message.family();
        }
    }
    let _ = (
        c10d::parse_c10d_line(bytes),
        c10d::parse_wrapped_timeout(bytes, bytes),
        version::parse_headerless_version(bytes),
    );
}

proptest! {
    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        take(&bytes);
    }

    #[test]
    fn a_line_with_other_bytes_in_it_is_taken(
        line in 0..LINES.len(),
        at in 0..200_usize,
        over in proptest::collection::vec(any::<u8>(), 0..8),
        digits in "[0-9]{0,25}",
    ) {
        let mut bytes = LINES[line].as_bytes().to_vec();
        let at = at.min(bytes.len());
        let end = (at + over.len()).min(bytes.len());
        bytes.splice(at..end, over.iter().copied());
        take(&bytes);
        bytes.splice(at..at, digits.bytes());
        take(&bytes);
    }
}
