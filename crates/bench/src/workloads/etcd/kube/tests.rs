use clap::Parser;

use super::*;

#[derive(Parser)]
struct Only {
    #[command(flatten)]
    args: EtcdKubeArgs,
}

fn time(options: &[&str]) -> anyhow::Result<Time> {
    let all = [&["it", "--target", "etcd://h:1"], options].concat();
    Only::parse_from(all).args.time()
}

#[test]
fn two_of_hours_seconds_and_compression_tell_the_third() {
    for (options, compress, seconds) in [
        (&[][..], 288.0, 300),
        (&["--compress", "10"][..], 10.0, 300),
        (&["--seconds", "60"][..], 288.0, 60),
        (&["--hours", "24"][..], 288.0, 300),
        (&["--hours", "12", "--seconds", "60"][..], 720.0, 60),
        (&["--hours", "1", "--compress", "7"][..], 7.0, 515),
    ] {
        assert_eq!(time(options).unwrap(), Time { compress, seconds }, "{options:?}");
    }
    for (options, named) in [
        (&["--hours", "1", "--compress", "7", "--seconds", "9"][..], "two of them"),
        (&["--compress", "0"][..], "--compress"),
        (&["--compress", "NaN"][..], "--compress"),
        (&["--hours", "0", "--compress", "2"][..], "--seconds"),
        (&["--hours", "1e9"][..], "--compress"),
    ] {
        let error = time(options).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}
