//! The algorithms that sign a JSON Web Token, by the names that its header gives them (RFC 7518,
//! 3.1; RFC 8037). golang-jwt, etcd's library, calls such an algorithm a *signing method*.

/// An algorithm that signs tokens. Its name is the same in options and in token headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the RFCs")]
pub enum SigningMethod {
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

impl SigningMethod {
    /// Every method.
    pub const ALL: [SigningMethod; 13] = [
        SigningMethod::Hs256,
        SigningMethod::Hs384,
        SigningMethod::Hs512,
        SigningMethod::Rs256,
        SigningMethod::Rs384,
        SigningMethod::Rs512,
        SigningMethod::Ps256,
        SigningMethod::Ps384,
        SigningMethod::Ps512,
        SigningMethod::Es256,
        SigningMethod::Es384,
        SigningMethod::Es512,
        SigningMethod::EdDsa,
    ];

    /// The method with this name, which is case-sensitive; `None` if there is none.
    pub fn named(name: &str) -> Option<SigningMethod> {
        SigningMethod::ALL.into_iter().find(|method| method.name() == name)
    }

    /// The name of the method.
    pub fn name(self) -> &'static str {
        match self {
            SigningMethod::Hs256 => "HS256",
            SigningMethod::Hs384 => "HS384",
            SigningMethod::Hs512 => "HS512",
            SigningMethod::Rs256 => "RS256",
            SigningMethod::Rs384 => "RS384",
            SigningMethod::Rs512 => "RS512",
            SigningMethod::Ps256 => "PS256",
            SigningMethod::Ps384 => "PS384",
            SigningMethod::Ps512 => "PS512",
            SigningMethod::Es256 => "ES256",
            SigningMethod::Es384 => "ES384",
            SigningMethod::Es512 => "ES512",
            SigningMethod::EdDsa => "EdDSA",
        }
    }
}
