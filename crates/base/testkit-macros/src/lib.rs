//! The attribute `#[test]` of `causeway-testkit`: the standard one, plus a watchdog that ends a hanging test.
//!
//! Where the crate root of a test program has `#[macro_use] extern crate causeway_testkit;`, each `#[test]` of the crate is this
//! attribute, because names of that prelude precede those of the standard library.

use proc_macro::{Delimiter, Group, Literal, TokenStream, TokenTree};

/// Registers the test with the watchdog of `causeway-testkit` for as long as its function runs.
///
/// An argument is the attribute that makes it a test instead of the standard one: `#[test(tokio::test)]`.
#[proc_macro_attribute]
pub fn test(attribute: TokenStream, function: TokenStream) -> TokenStream {
    let mut function: Vec<TokenTree> = function.into_iter().collect();
    let mut words = function.iter().skip_while(|token| token.to_string() != "fn");
    let name = words.nth(1).map(ToString::to_string).unwrap_or_default();
    let Some(TokenTree::Group(body)) = function.pop() else { panic!("#[test] is for functions with a body") };

    let name = TokenTree::from(Literal::string(&name));
    let mut watched: TokenStream =
        "let _test = ::causeway_testkit::watchdog::Test::start".parse().expect("a path is valid Rust");
    let arguments: TokenStream = "::core::env!(\"CARGO_PKG_NAME\"), ::core::module_path!(),"
        .parse()
        .expect("arguments are valid Rust");
    let arguments = arguments.into_iter().chain([name]).collect();
    watched.extend([TokenTree::from(Group::new(Delimiter::Parenthesis, arguments))]);
    watched.extend(";".parse::<TokenStream>());
    watched.extend(body.stream());
    // The span of the body, so that errors of the compiler about a missing result point at the end of the test.
    let mut watched = Group::new(Delimiter::Brace, watched);
    watched.set_span(body.span());

    let standard = || "::core::prelude::v1::test".parse().expect("an attribute is valid Rust");
    let attribute = if attribute.is_empty() { standard() } else { attribute };
    let mut test: TokenStream = "#".parse().expect("the begin of an attribute is valid Rust");
    test.extend([TokenTree::from(Group::new(Delimiter::Bracket, attribute))]);
    test.extend(function);
    test.extend([TokenTree::from(watched)]);
    test
}
