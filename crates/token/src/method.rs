//! The methods of signing tokens (RFC 7518, 3.1; RFC 8037).

/// A method, by the name that it has in options and in headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the RFCs")]
pub enum Method {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
    EdDsa,
}

impl Method {
    /// Every method.
    pub const ALL: [Method; 13] = [
        Method::Hs256,
        Method::Hs384,
        Method::Hs512,
        Method::Rs256,
        Method::Rs384,
        Method::Rs512,
        Method::Ps256,
        Method::Ps384,
        Method::Ps512,
        Method::Es256,
        Method::Es384,
        Method::Es512,
        Method::EdDsa,
    ];

    /// The method of this name; its case counts, too.
    pub fn named(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Method::Hs256 => "HS256",
            Method::Hs384 => "HS384",
            Method::Hs512 => "HS512",
            Method::Rs256 => "RS256",
            Method::Rs384 => "RS384",
            Method::Rs512 => "RS512",
            Method::Ps256 => "PS256",
            Method::Ps384 => "PS384",
            Method::Ps512 => "PS512",
            Method::Es256 => "ES256",
            Method::Es384 => "ES384",
            Method::Es512 => "ES512",
            Method::EdDsa => "EdDSA",
        }
    }
}
