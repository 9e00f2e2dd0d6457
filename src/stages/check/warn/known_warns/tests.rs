use super::table::{
    KNOWN_REASONS, KNOWN_REASONS_TEXT, KNOWN_WARNS_TEXT, all_rows, parse_row, split_rows,
};
use super::*;
use std::collections::BTreeMap;

/// A row's samples, and the source file that prints them.
fn samples_of(row: &'static str) -> (Vec<&'static [u8]>, Option<&'static [u8]>) {
    let after = |word| row.lines().filter_map(move |line| line.strip_prefix(word));
    let samples = after("like ").map(str::as_bytes).collect();
    (samples, after("from ").next().map(str::as_bytes))
}

/// Each row has all parts, and each of its samples is its own.
#[test]
fn every_sample_is_won_by_its_own_row() {
    let mut rows = 0;
    for row in split_rows(KNOWN_WARNS_TEXT).chain(split_rows(KNOWN_REASONS_TEXT)) {
        let known = parse_row(row).expect(row);
        assert!(!known.patterns.is_empty(), "{row}");
        let (samples, source) = samples_of(row);
        assert!(!samples.is_empty(), "{row}");
        for sample in samples {
            let found = look_up_sourced_warn(sample, source);
            let text = String::from_utf8_lossy(sample);
            assert_eq!(found, Some(&known.meaning), "{text}");
        }
        rows += 1;
    }
    assert_eq!(rows, all_rows().count());
    assert_eq!(look_up_warn(b"something new"), None);
}

#[test]
fn no_two_rows_tie_on_a_sample() {
    for row in split_rows(KNOWN_WARNS_TEXT).chain(split_rows(KNOWN_REASONS_TEXT)) {
        let (samples, source) = samples_of(row);
        for sample in samples {
            let frames: Vec<_> = find_frames(sample, source).collect();
            let most = frames.iter().map(|frame| frame.letters).max();
            let best = frames.iter().filter(|frame| Some(frame.letters) == most);
            let ids: Vec<_> = best.map(|frame| frame.row.meaning.id).collect();
            let text = String::from_utf8_lossy(sample);
            assert!(ids.len() <= 1, "{text}: {ids:?}");
        }
    }
}

#[test]
fn every_kind_has_one_role_and_a_reference() {
    let mut roles: BTreeMap<&str, WarnRole> = BTreeMap::new();
    for known in all_rows().map(|known| &known.meaning) {
        let role = *roles.entry(known.id).or_insert(known.role);
        assert_eq!(role, known.role, "{}", known.id);
        assert!(known.id.starts_with("warn_"), "{}", known.id);
        assert!(known.reference.contains(['#', '/']), "{}", known.id);
        for clause in [known.means, known.advice] {
            assert!(!clause.is_empty() && !clause.ends_with('.'), "{}", known.id);
        }
        let harmless = known.role == WarnRole::Harmless;
        assert_eq!(harmless, known.severity == Severity::Note, "{}", known.id);
    }
}

#[test]
fn a_number_and_a_name_are_of_one_reason() {
    let mut numbers = BTreeMap::new();
    let mut names = BTreeMap::new();
    let patterns = KNOWN_REASONS.iter().flat_map(|row| &row.patterns);
    for pattern in patterns {
        let WarnPattern::Reason(reason) = pattern else {
            panic!("{pattern:?} is not a reason");
        };
        let giver = format!("{:?}", reason.giver);
        let name = *numbers
            .entry((giver.clone(), reason.number))
            .or_insert(reason.name);
        assert_eq!(name, reason.name, "{giver} {:?}", reason.number);
        let number = *names.entry((giver, reason.name)).or_insert(reason.number);
        assert_eq!(number, reason.number, "{}", reason.name);
    }
}

#[test]
fn a_reason_inside_any_text_is_read() {
    let id = |text: &str| look_up_warn(text.as_bytes()).map(|known| known.id);
    for (text, expected) in [
        ("a new frame : Connection refused", "warn_socket_refused"),
        ("a new frame failed: ECONNREFUSED", "warn_socket_refused"),
        (
            "a new frame : 217 peer access is not supported between these two devices",
            "warn_cuda_peer",
        ),
        (
            "a new frame: an illegal memory access was encountered",
            "warn_cuda_fault",
        ),
        ("a new frame: cudaErrorIllegalAddress", "warn_cuda_fault"),
        ("a new frame: hipErrorNoDevice", "warn_hip_setup"),
        ("a new frame: CUDA error: out of memory", "warn_cuda_oom"),
        ("HIP failure 'out of memory'", "warn_hip_oom"),
        // The number decides if the words are cut, or of another version.
        ("Cuda failure 802", "warn_cuda_fabric"),
        (
            "Cuda failure 802 'the system has not started'",
            "warn_cuda_fabric",
        ),
        // The words decide where the number is of CUDA 10.0 or before.
        (
            "Cuda failure 77 'an illegal memory access was encountered'",
            "warn_cuda_fault",
        ),
        ("Cuda failure 'an illegal mem", "warn_cuda_fault"),
        // What NCCL tried decides where the reason tells little.
        (
            "failed to open CUDA IPC handle : 201 invalid device context",
            "warn_ipc",
        ),
        (
            "Call to ibv_poll_cq failed with error Invalid argument",
            "warn_ib_verbs",
        ),
        (
            "Error while creating shared memory segment x: No space left on device",
            "warn_no_space_shm",
        ),
        (
            "wc.status=IBV_WC_RNR_RETRY_EXC_ERR(13) in a new frame",
            "warn_ib_rnr_retry_exceeded",
        ),
        // Nothing fails by a teardown, whatever the reason.
        (
            "shm unlink failed for x: Permission denied",
            "warn_comm_teardown",
        ),
    ] {
        assert_eq!(id(text), Some(expected), "{text}");
    }
    for text in [
        // Words without the number, which others have too.
        "the pool is out of memory",
        "unknown error of a plugin",
        "see EPIPELINE",
        "1217 peer",
    ] {
        assert_eq!(id(text), None, "{text}");
    }
}

#[test]
fn a_program_s_words_name_an_error_of_a_gpu() {
    let id = |text: &str| look_up_gpu_reason(text.as_bytes()).map(|known| known.id);
    let cuda_init = "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount().";
    for (text, expected) in [
        (
            &*format!("{cuda_init} Error 802: system not yet initialized"),
            Some("warn_cuda_fabric"),
        ),
        (
            "[802] Call to cuInit results in CUDA_ERROR_SYSTEM_NOT_READY",
            Some("warn_cuda_fabric"),
        ),
        (
            "CUDA initialization failure with error: 35",
            Some("warn_cuda_driver"),
        ),
        ("cudaGetDeviceCount returned 35", Some("warn_cuda_driver")),
        ("CUDA error: an illegal memory access was encountered", None),
        ("the loop returned 35", None),
        ("[Errno 104] Connection reset by peer", None),
    ] {
        assert_eq!(id(text), expected, "{text}");
    }
}

#[test]
fn a_row_of_a_source_file_is_for_its_lines_only() {
    let id = |source: &str| {
        let text = b"Call to bind failed: Address already in use";
        look_up_sourced_warn(text, Some(source.as_bytes())).map(|known| known.id)
    };
    assert_eq!(
        id("ras/client_support.cc:181"),
        Some("warn_ras_unavailable")
    );
    assert_eq!(
        id("/x/src/ras/client_support.cc:181"),
        Some("warn_ras_unavailable")
    );
    assert_eq!(id("misc/socket.cc:181"), Some("warn_address_in_use"));
    assert_eq!(id("extras/x.cc:1"), Some("warn_address_in_use"));
}
