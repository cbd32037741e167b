use super::*;

#[test]
fn objects_are_indented_and_lists_are_not() {
    let connection = |port| Json::object([("address", format!("[::1]:{port}").into())]);
    let value = Json::object([
        ("list", Json::List(vec![connection(1), connection(2)])),
        ("ids", Json::List(vec![Json::whole(1), Json::whole(-2)])),
        ("none", Json::List(vec![])),
        ("empty", Json::Object(vec![])),
        ("inner", Json::object([("real", Json::Number(Number::Real(2.1111)))])),
        ("quote\"", "a\n\u{1}ä/".into()),
        ("flag", true.into()),
        ("error", Json::Null),
    ]);
    let expected = r#"{
  "list" : [ {
    "address" : "[::1]:1"
  }, {
    "address" : "[::1]:2"
  } ],
  "ids" : [ 1, -2 ],
  "none" : [ ],
  "empty" : { },
  "inner" : {
    "real" : 2.1111
  },
  "quote\"" : "a\n\u0001ä/",
  "flag" : true,
  "error" : null
}"#;
    assert_eq!(value.print(), expected);
}
