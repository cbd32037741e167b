//! Runs seeds: `seeds FIRST LAST`, or `seeds N v` for one with everything that happens.
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let first: u64 = args[1].parse().unwrap();
    if args.get(2).is_some_and(|a| a == "v") {
        let mut options = sim::Options::draw(first);
        options.is_verbose = true;
        println!("{options:?}");
        match sim::run(options) {
            Ok(s) => println!("{s:#?}"),
            Err(f) => println!("{f}"),
        }
        return;
    }
    let last: u64 = args[2].parse().unwrap();
    let mut bad = 0;
    for seed in first..=last {
        match sim::run_seed(seed) {
            Ok(_) => {}
            Err(f) => {
                bad += 1;
                println!("SEED {seed}: {}", f.reason)
            }
        }
    }
    println!("{first}..={last}: {bad} failed");
}
