//! Checks that the committed code is what the compiler generates from `proto/datanode.proto`.

use std::fs;
use std::path::Path;

/// The first lines of the committed file: the head of its module.
const HEADER: &str = "\
//! The messages of `proto/datanode.proto`, generated. `QUORATE_REGENERATE=1 cargo test --package
//! chunk --test generated` writes this file anew.
";

/// The file with the generated code.
const COMMITTED: &str = "src/wire/pb.rs";

/// Generates the code from the proto file, with `bytes` fields as slices of the received message.
fn generate() -> String {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let proto = crate_dir.join("proto");
    let files = protox::compile(["datanode.proto"], [&proto]).expect("the text compiles");
    let mut config = prost_build::Config::new();
    config.bytes(["."]);
    let [file] = &files.file[..] else { panic!("one file") };
    let module = prost_build::Module::from_protobuf_package_name(file.package());
    let mut code = config.generate(vec![(module.clone(), file.clone())]).expect("it has code");
    HEADER.to_string() + &code.remove(&module).expect("of that module")
}

#[test]
fn the_committed_code_is_what_the_text_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(COMMITTED);
    let generated = generate();
    if std::env::var_os("QUORATE_REGENERATE").is_some() {
        fs::write(&path, &generated).expect("the file can be written");
    }
    let committed = fs::read_to_string(&path).expect("the code is committed");
    assert!(committed == generated, "{COMMITTED} is not what proto/datanode.proto says");
}
