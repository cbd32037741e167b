use etcd::convert;
use workload::etcd::form::check;
use workload::etcd::generate::{Generator, Options};
use workload::generate::Random;

use super::*;

/// The server's own conversion accepts every encoded call, and refuses exactly those with a wrong
/// form.
#[test]
fn the_server_refuses_the_calls_whose_form_is_wrong_and_no_others() {
    let mut generator = Generator::new(Random::new(1), 0, Options::all(Vec::new()));
    for _ in 0..2_000 {
        let op = generator.next_op();
        let (method, bytes) = encode(&op);
        let ops_max = etcd::limits::TXN_OPS_MAX_DEFAULT;
        let converted = match method {
            EtcdMethod::Range => convert::range(&Message::decode(bytes).unwrap()).map(|_| ()),
            EtcdMethod::Put => convert::put(&Message::decode(bytes).unwrap()).map(|_| ()),
            EtcdMethod::DeleteRange => {
                convert::delete_range(&Message::decode(bytes).unwrap()).map(|_| ())
            }
            EtcdMethod::Txn => convert::txn(&Message::decode(bytes).unwrap(), ops_max).map(|_| ()),
            EtcdMethod::Compact => Ok(()),
            method => unreachable!("no client calls {method:?}"),
        };
        let expected = check(&op);
        assert_eq!(converted.map_err(|it| error(it).unwrap()), expected, "{op:?}");
    }
}
