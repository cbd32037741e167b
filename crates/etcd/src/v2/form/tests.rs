use super::*;

fn form(texts: &[&str]) -> Result<Form, FormError> {
    let mut form = Form::default();
    for text in texts {
        form.add(text.as_bytes())?;
    }
    Ok(form)
}

#[test]
fn the_first_value_of_a_parameter_counts() {
    let mut form = form(&["value=a+b%26&x", "value=other&&ttl=&%64ir=1=2"]).unwrap();
    assert_eq!(form.first("value"), Some(b"a b&".as_slice()));
    assert_eq!(form.first("ttl"), Some(b"".as_slice()));
    assert_eq!(form.first("dir"), Some(b"1=2".as_slice()));
    assert_eq!((form.first("x"), form.first("wait")), (None, None), "the one is not known");
    assert_eq!((form.take("value"), form.take("wait")), (b"a b&".to_vec(), Vec::new()));
}

#[test]
fn what_cannot_be_read_is_named() {
    let escape = form(&["a=1&b=%g1"]).unwrap_err();
    assert_eq!(escape.to_string(), "invalid URL escape \"%g1\"");
    assert!(form(&["%g1=1"]).is_err() && form(&["value=1&value=%"]).is_err());
    assert_eq!(form(&["a=1;b=2"]).unwrap_err(), FormError::Semicolon);
}
