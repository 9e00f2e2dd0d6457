//! Pages of damaged logs: in each form they come to an end, their JSON is JSON, and nothing of a log is markup.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::stages::matrix::cells::TrafficUnit;
use nccl_pipe::stages::matrix::svg_heat_map::draw_matrix_svg;
use nccl_pipe::stages::page::{
    PageOrder, PageSection, SectionRows, gather_page, html, json, markdown, text,
};
use nccl_pipe_fuzz::{Nobody, Work, options, report, small_log};

/// What a log may try to put into a page.
const MARKUP: &[u8] = b"h:1:2 [0] NCCL WARN <script>fuzzed()</script> &amp; \x1b[31m ]]> \x08\n";

/// Fails for characters that markup cannot have, and for markup of the log.
fn check_markup(page: &str) {
    let is_bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    assert!(!page.chars().any(is_bad), "a control character");
    assert!(!page.contains("<script>fuzzed"), "markup of a log");
    for tag in ["svg", "table", "details", "section"] {
        let count = |text: &str| page.matches(text).count();
        let begun = count(&format!("<{tag}>")) + count(&format!("<{tag} "));
        assert_eq!(begun, count(&format!("</{tag}>")), "{tag}");
    }
}

fuzz_target!(|data: &[u8]| {
    let mut log = small_log(data);
    log.extend_from_slice(MARKUP);
    let work = Work::default();
    let origins = [work.file("x.log", &log)];
    let options = options(1, true);
    let all = nccl_pipe::filter::CallFilter::default();
    let order = PageOrder {
        filter: &all,
        filter_against: &all,
        origins: &origins,
        against: &[],
        whole: true,
        options: &options,
    };
    let Ok(page) = gather_page(order, &mut report(), &Nobody) else {
        return;
    };
    let mut written = Vec::new();
    html::write_page(&page, 1, &mut written).unwrap();
    check_markup(&String::from_utf8(written).unwrap());
    let is_bad = |c: char| c.is_control() && c != '\n';
    assert!(!text::render_text(&page, 80, false).chars().any(is_bad));
    assert!(!markdown::render_markdown(&page).chars().any(is_bad));
    let object = json::render_json(&page, 1);
    assert!(
        serde_json::from_slice::<serde_json::Value>(&object).is_ok(),
        "JSON"
    );
    if let Some(SectionRows::Pairs(matrix)) = page.table(PageSection::Matrix) {
        check_markup(&draw_matrix_svg(matrix, TrafficUnit::Bytes));
    }
});
