use super::*;

const NAME: &str = "void f<(int)4, g>(T1, \"q\")";

fn names(text: &str, by_grid: bool) -> Vec<(String, u64, u64)> {
    let read = parse_stats(text.as_bytes(), by_grid);
    assert_eq!(read.account.lines, text.lines().count() as u64);
    assert_eq!(read.account.damaged, 0, "{:?}", read.account.places);
    let row = |k: &StatsKernel| {
        let name = String::from_utf8(k.name.clone()).unwrap();
        (name, k.summary.total, k.summary.instances)
    };
    read.kernels.iter().map(row).collect()
}

#[test]
fn every_layout_is_read() {
    let expected = vec![
        (NAME.to_owned(), 1_234_567, 1_000),
        ("nvjet_tst".to_owned(), 5, 1),
    ];
    let csv = format!(
        "Processing [a.sqlite] with [gpukernsum.py]... \n\
         Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n\
         99.9,1234567,1000,1234.6,1.0,1,9,2.5,\"{NAME}\"\n\
         0.1,5,1,5.0,5.0,5,5,0.0,nvjet_tst\n\n"
    );
    assert_eq!(names(&csv, false), expected);
    let tsv: String = csv.replacen(",Name", "\tName", 1);
    let tsv: String = tsv
        .lines()
        .map(|line| {
            let cells = line.splitn(9, ',').map(|cell| cell.trim_matches('"'));
            cells.collect::<Vec<_>>().join("\t") + "\n"
        })
        .collect();
    assert_eq!(names(&tsv, false), expected, "{tsv}");
    // 2021, with separators of thousands.
    let rule = "+---------+-----------------+-----------+-----------+---------+---------+--------+----------------------------+";
    let table = format!(
        "{rule}\n\
         | Time(%) | Total Time (ns) | Instances |  Average  | Minimum | Maximum | StdDev |            Name            |\n\
         {rule}\n\
         |    99.9 |       1,234,567 |     1,000 |   1,234.6 |       1 |       9 |    2.5 | {NAME} |\n\
         |     0.1 |               5 |         1 |       5.0 |       5 |       5 |    0.0 | nvjet_tst                  |\n\
         {rule}\n"
    );
    assert_eq!(names(&table, false), expected);
    let column = format!(
        " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n \
         Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)             Name           \n \
         --------  ---------------  ---------  --------  --------  --------  --------  -----------  --------------------------\n     \
         99.9        1,234,567      1,000   1,234.6       1.0         1         9          2.5  {NAME}\n      \
         0.1                5          1       5.0       5.0         5         5          0.0  nvjet_tst                 \n\n\
         Processing [b]\n"
    );
    assert_eq!(names(&column, false), expected);
    let json = format!(
        "[\n  {{\n    \"Time (%)\": 99.9,\n    \"Total Time (ns)\": 1234567,\n    \"Instances\": 1000,\n    \
         \"Avg (ns)\": 1234.6,\n    \"Min (ns)\": 1,\n    \"Max (ns)\": 9,\n    \"Name\": \"{NAME}\"\n  }},\n  {{\n    \
         \"Time (%)\": 0.1,\n    \"Total Time (ns)\": 5,\n    \"Instances\": 1,\n    \"Avg (ns)\": 5.0,\n    \
         \"Min (ns)\": 5,\n    \"Max (ns)\": 5,\n    \"Name\": \"nvjet_tst\"\n  }}\n]\n"
    );
    assert_eq!(names(&json, false), expected);
    for whole in [&csv, &tsv, &table, &column, &json] {
        assert_eq!(parse_stats(whole.as_bytes(), false).printed_percent(), None);
        let some = whole.replace("99.9", "27.8");
        let percent = parse_stats(some.as_bytes(), false).printed_percent();
        assert!(
            percent.is_some_and(|sum| (sum - 27.9).abs() < 0.01),
            "{percent:?}"
        );
    }
}

/// A report as a table and as columns, wide enough to be cut by a terminal.
fn wide_reports() -> [String; 2] {
    let sides = [9, 17, 11, 9, 9, 62].map(|width| "-".repeat(width));
    let rule = format!("+{}+\n", sides.join("+"));
    let table = format!(
        "{rule}| Time(%) | Total Time (ns) | Instances | Minimum | Maximum | {:^60} |\n{rule}\
         |    99.9 |         1234567 |      1000 |       1 |       9 | {NAME:<60} |\n\
         |     0.1 |               5 |         1 |       5 |       5 | {:<60} |\n{rule}",
        "Name", "nvjet_tst"
    );
    let column = format!(
        " Time (%)  Total Time (ns)  Instances  Min (ns)  Max (ns)  {:^60}\n \
         --------  ---------------  ---------  --------  --------  {}\n     \
         99.9          1234567       1000         1         9  {NAME:<60}\n      \
         0.1                5          1         5         5  {:<60}\n\n",
        "Name",
        "-".repeat(60),
        "nvjet_tst"
    );
    [table, column]
}

#[test]
fn reports_in_other_text_and_cut_by_a_terminal_are_read() {
    let expected = vec![
        (NAME.to_owned(), 1_234_567, 1_000),
        ("nvjet_tst".to_owned(), 5, 1),
    ];
    let csv = format!(
        "Time (%),Total Time (ns),Instances,Min (ns),Max (ns),Name\n\
         99.9,1234567,1000,1,9,\"{NAME}\"\n0.1,5,1,5,5,nvjet_tst\n"
    );
    let [table, column] = wide_reports();
    for text in [&csv, &table, &column] {
        assert_eq!(names(text, false), expected, "{text}");
        for mark in ["    ", "> ", "[1,0]<stdout>:", "2026-03-02T15:19:59.123Z "] {
            let marked: String = text.lines().map(|line| format!("{mark}{line}\n")).collect();
            assert_eq!(names(&marked, false), expected, "{marked}");
        }
        // Lines of another rank between them.
        let tagged = text
            .lines()
            .map(|line| format!("[1,0]<stdout>:{line}\n[1,1]<stderr>:loading\n"));
        assert_eq!(names(&tagged.collect::<String>(), false), expected);
    }
    for (text, widths) in [(&table, 40..120), (&column, 40..120)] {
        for width in widths {
            let pieces = text.lines().flat_map(|line| match line.len() {
                0 => vec![""],
                _ => line
                    .as_bytes()
                    .chunks(width)
                    .map(|piece| std::str::from_utf8(piece).unwrap())
                    .collect(),
            });
            let cut: String = pieces.map(|piece| format!("{piece}\n")).collect();
            let read = parse_stats(cut.as_bytes(), false);
            let is_whole = read.kernels.len() == 2;
            // The first line of a header must have the columns that show it to be one.
            assert!(is_whole || width < 66, "{width}: {cut}\n{read:?}");
            if is_whole {
                assert_eq!(names(&cut, false), expected);
            }
        }
    }
    let (before, after) = csv.split_at(csv.find("g>").unwrap());
    assert_eq!(names(&format!("{before}\n{after}"), false), expected);
}

#[test]
fn a_trace_is_added_up_where_no_report_has_sums() {
    let head = "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),\
                Bytes (MB),Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n";
    let rows = "100,30,11,2,1,1,64,1,1,24,0.000,0.000,,,,,NVIDIA H100 (0),1,7,\"f(int, int)\"\n\
                160,50,12,3,1,1,64,1,1,24,0.000,0.000,,,,,NVIDIA H100 (0),1,7,\"f(int, int)\"\n\
                170,5,13,,,,,,,,,,4.096,1.0,Pageable,Device,NVIDIA H100 (0),1,7,[CUDA memcpy HtoD]\n\
                180,7,14,1,1,1,32,1,1,24,0.000,0.000,,,,,NVIDIA H100 (0),1,7,g\n";
    let text = format!("Processing [a.sqlite] with [cuda_gpu_trace.py]... \n{head}{rows}\n");
    let both = [("f(int, int)".to_owned(), 80, 2), ("g".to_owned(), 7, 1)];
    assert_eq!(names(&text, false), both);
    let read = parse_stats(text.as_bytes(), false);
    let first = read.kernels[0].summary;
    assert_eq!((first.median, first.min, first.max), (Some(40.0), 30, 50));
    assert_eq!(read.printed_percent(), None);
    assert_eq!(names(&text, true).len(), 3);
    let sums = "Time (%),Total Time (ns),Instances,Min (ns),Max (ns),Name\n100.0,80,2,30,50,h\n\n";
    assert_eq!(
        names(&format!("{sums}{text}"), false),
        [("h".to_owned(), 80, 2)]
    );
    let damaged = text.replace(",50,12,", ",x,12,");
    assert_eq!(parse_stats(damaged.as_bytes(), false).account.damaged, 1);
}

#[test]
fn quotes_around_fields_change_nothing() {
    let header = "Time (%),Total Time (ns),Instances,Min (ns),Max (ns),GridXYZ,BlockXYZ,Name";
    let row = "100.0,1234567,2,30,50,1 2 3,4 5 6,";
    let quote = |line: &str| format!("\"{}\"", line.replace(',', "\",\""));
    let quoted_row = format!("{}\"f(int, int)\"", quote(row).trim_end_matches('"'));
    let plain = format!("{header}\n{row}\"f(int, int)\"\n");
    for text in [
        plain.clone(),
        format!("{}\n{row}\"f(int, int)\"\n", quote(header)),
        format!("{}\n{quoted_row}\n", quote(header)),
        format!("[0] {}\n[0] {quoted_row}\n", quote(header)),
        format!("{header}\n{quoted_row}\n"),
    ] {
        let [read, expected] = [&text, &plain].map(|text| parse_stats(text.as_bytes(), true));
        assert_eq!(read.kernels, expected.kernels, "{text}");
        assert_eq!(read.account.damaged, 0, "{text}");
        assert_eq!(read.kernels.len(), 1);
    }
    let mixed = format!(
        "{},\"Category\",\"Operation\"\n\"100.0\",\"30\",\"3\",\"9\",\"11\",\"CUDA_KERNEL\",\"f\"\n",
        quote("Time (%),Total Time (ns),Instances,Min (ns),Max (ns)")
    );
    assert_eq!(names(&mixed, false), [("f".to_owned(), 30, 3)]);
}

#[test]
fn other_reports_are_passed_over() {
    let text = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range\n\
                44.6,170465528,3262,52258.0,25762.0,19794,41381780,1023730.0,PushPop,NCCL:ncclAllGather\n\n";
    assert!(names(text, false).is_empty());
}

#[test]
fn a_summary_with_copies_has_the_kernels_if_no_other_has() {
    let head =
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),";
    let mixed = format!(
        "{head}Category,Operation\n44.6,30,3,10.0,10.0,9,11,1.0,CUDA_KERNEL,\"f(int, int)\"\n\
         55.4,40,4,10.0,10.0,10,10,0.0,MEMORY_OPER,[CUDA memcpy HtoD]\n\n"
    );
    assert_eq!(names(&mixed, false), [("f(int, int)".to_owned(), 30, 3)]);
    assert_eq!(parse_stats(mixed.as_bytes(), false).printed_percent(), None);
    let both = format!("{mixed}{head}Name\n100.0,31,3,10.0,10.0,9,11,1.0,f\n");
    assert_eq!(names(&both, false), [("f".to_owned(), 31, 3)]);
}

#[test]
fn a_report_by_grid_and_one_by_name_are_of_the_same_kernels() {
    let head =
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),";
    let text = format!(
        "{head}Name\n100.0,30,3,10.0,10.0,9,11,1.0,f\n\n\
         {head}GridXYZ,BlockXYZ,Name\n70.0,20,2,10.0,10.0,9,11,1.0, 244    1    6, 128    1    1,f\n\
         30.0,10,1,10.0,10.0,10,10,0.0,   1    1    1, 128    1    1,f\n"
    );
    assert_eq!(names(&text, false), [("f".to_owned(), 30, 3)]);
    assert_eq!(names(&text, true).len(), 2);
    let launched = parse_stats(text.as_bytes(), true).kernels[0].launched;
    assert_eq!(launched, Some(([244, 1, 6], [128, 1, 1])));
}

#[test]
fn a_damaged_row_is_counted() {
    let text = "Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Name\n\
                100.0,30,3,10.0,9,11,f\n100.0,30,3,10.0\n1.0,x,3,10.0,9,11,g\n";
    let read = parse_stats(text.as_bytes(), false);
    assert_eq!((read.kernels.len(), read.account.damaged), (1, 2));
}

#[test]
fn units_are_those_of_the_header() {
    let text = "Time (%),Total Time (us),Instances,Avg (us),Med (us),Min (us),Max (us),StdDev (us),Name\n\
                100.0,30.500,3,10.167,10.000,9.250,11.000,1.000,f\n";
    let summary = parse_stats(text.as_bytes(), false).kernels[0].summary;
    assert_eq!(
        (summary.total, summary.min, summary.median),
        (30_500, 9_250, Some(10_000.0))
    );
}

proptest::proptest! {
    #[test]
    fn any_text_is_accounted_for(
        text in "(Time \\(%\\),Total Time \\(ns\\),Instances,Min \\(ns\\),Max \\(ns\\),Name\n|[|+\\- 0-9.,\"a…\t{}\\[\\]:\n]{0,40}){0,6}",
    ) {
        let read = parse_stats(text.as_bytes(), false);
        proptest::prop_assert_eq!(read.account.count_decided_lines(), read.account.lines);
    }
}

#[test]
fn a_table_that_a_terminal_cut_is_read_at_every_width() {
    let long = format!("void kernel<{}>(int)", "(long)1125899906910725, ".repeat(4));
    let (blanks, rule) = (" ".repeat(60), "-".repeat(long.len()));
    let column = format!(
        " Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns) {blanks} Name\n \
         --------  ---------------  ---------  --------  --------  --------  --------  -----------  {rule}\n     \
         99.9        1,234,567      1,000   1,234.6       1.0         1         9          2.5  {long}\n      \
         0.1                5          1       5.0       5.0         5         5          0.0  nvjet_tst\n\n\
         Processing [b]\n"
    );
    let whole = names(&column, false);
    assert_eq!(whole.len(), 2);
    for width in 40..=220 {
        let fold = |line: &str| {
            let pieces = line.as_bytes().chunks(width);
            let pieces = pieces.map(|piece| format!("{}\n", String::from_utf8_lossy(piece)));
            pieces.collect::<String>()
        };
        let cut: String = column
            .lines()
            .map(|line| match line {
                "" => "\n".to_owned(),
                _ => fold(line),
            })
            .collect();
        assert_eq!(names(&cut, false), whole, "{width}: {cut}");
    }
}
