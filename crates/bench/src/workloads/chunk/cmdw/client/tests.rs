use super::*;

#[test]
fn addresses_have_a_host_and_a_port() {
    let good: ChunkAddress = "chunk://localhost:9859/".parse().unwrap();
    assert_eq!(good.to_string(), "chunk://localhost:9859");
    for bad in ["", "localhost:9859", "zk://a:1", "chunk://a", "chunk://:1", "chunk://a:0"] {
        assert!(bad.parse::<ChunkAddress>().is_err(), "{bad}");
    }
}

#[test]
fn who_is_not_there_is_named() {
    let error = "chunk://127.0.0.1:1".parse::<ChunkAddress>().unwrap().find().unwrap_err();
    assert_eq!(error.to_string(), "nothing answers at chunk://127.0.0.1:1");
}
