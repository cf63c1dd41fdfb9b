use super::*;

const HTML: &str = "content-type: text/html; charset=utf-8";

fn head(fields: &[&str]) -> HeaderMap {
    let field = |field: &&str| {
        let (name, value) = field.split_once(": ").unwrap();
        (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())
    };
    let mut headers = HeaderMap::new();
    headers.extend(fields.iter().map(field));
    headers
}

fn recognised(status: u16, fields: &[&str], body: &str) -> Option<Refusal> {
    let (status, headers) = (StatusCode::from_u16(status).unwrap(), head(fields));
    let in_body = || Refusal::in_body(status, &headers, body.as_bytes());
    let refusal = Refusal::in_head(status, &headers).or_else(in_body);
    assert!(
        refusal.is_none() || Refusal::in_head(status, &headers).is_some() || {
            Refusal::may_be_in_body(status, &headers)
        }
    );
    refusal
}

/// Responses of gatekeepers: the row, the fields besides the type, the body.
const REFUSALS: &[(&str, &[&str], &str)] = &[
    ("cloudflare", &["server: cloudflare", "cf-ray: 8f2b3c4d5e6f7-SJC", "cf-mitigated: challenge"], ""),
    (
        "cloudflareTitle",
        &["server: BaseHTTP/0.6", "server: cloudflare"],
        "<!DOCTYPE html><html lang=\"en-US\"><head><title>Just a moment...</title><meta name=\"robots\" content=\"noindex,nofollow\"></head>\
         <body><noscript>Enable JavaScript and cookies to continue</noscript></body></html>",
    ),
    (
        "cloudflareScript",
        &[],
        "<!DOCTYPE html><html><head><title>Un instant…</title></head><body><div class=\"main-wrapper\"></div>\
         <script>(function(){window._cf_chl_opt = {cvId: '3'};var a = document.createElement('script');\
         a.src = '/cdn-cgi/challenge-platform/h/g/orchestrate/chl_page/v1?ray=8';}());</script></body></html>",
    ),
    (
        "cloudflareBlock",
        &["server: cloudflare"],
        "<!DOCTYPE html>\n<!--[if lt IE 7]> <html class=\"no-js ie6 oldie\" lang=\"en-US\"> <![endif]-->\n<head>\n\
         <title>Attention Required! | Cloudflare</title>\n<meta charset=\"UTF-8\" /></head><body><div id=\"cf-wrapper\">\
         <h1 data-translate=\"block_headline\">Sorry, you have been blocked</h1>",
    ),
    (
        "cloudflareBlocked",
        &[],
        "<html><head><title>a.example</title></head><body><div id=\"cf-error-details\" class=\"cf-error-details-wrapper\">\
         <h1 data-translate=\"block_headline\">Sorry, you have been blocked</h1>",
    ),
    (
        "cloudflareBlockedAt",
        &["server: cloudflare"],
        "<html><head><title>a.example</title></head><body><h1>Sorry, you have been blocked</h1></body></html>",
    ),
    (
        "cloudflare1020",
        &[],
        "<!doctype html><html><head><title>Access denied | a.example used Cloudflare to restrict access</title></head>",
    ),
    ("awsWafChallenge", &["x-amzn-waf-action: challenge"], ""),
    ("awsWafCaptcha", &["X-Amzn-Waf-Action: captcha"], ""),
    ("vercelChallenge", &["server: Vercel", "x-vercel-mitigated: challenge"], ""),
    ("vercelDeny", &["server: Vercel", "x-vercel-mitigated: deny"], ""),
    (
        "akamai",
        &["server: AkamaiGHost"],
        "<HTML><HEAD>\n<TITLE>Access Denied</TITLE>\n</HEAD><BODY>\n<H1>Access Denied</H1>\n</BODY></HTML>",
    ),
    (
        "akamaiReference",
        &[],
        "<HTML><HEAD>\n<TITLE>Access Denied</TITLE>\n</HEAD><BODY>\n<H1>Access Denied</H1>\n \nYou don't have permission to access \
         \"http&#58;&#47;&#47;a&#46;example&#47;\" on this server.<P>\nReference&#32;&#35;18&#46;7a1d\n<P>\nhttps&#58;&#47;&#47;errors&#46;\
         edgesuite&#46;net&#47;18&#46;7a1d\n</P>\n</BODY>\n</HTML>",
    ),
    (
        "imperva",
        &["x-iinfo: 9-12345678-0 0NNN RT(1 1) q(0 -1 -1 -1)"],
        "<html style=\"height:100%\"><head><META NAME=\"ROBOTS\" CONTENT=\"NOINDEX, NOFOLLOW\"><script type=\"text/javascript\" \
         src=\"/_Incapsula_Resource?SWJIYLWA=719d\"></script></head><body style=\"margin:0px;height:100%\"><iframe id=\"main-iframe\" \
         src=\"/_Incapsula_Resource?SWUDNSAI=31&xinfo=9&incident_id=1-2\" frameborder=0>Request unsuccessful. Incapsula incident ID: \
         1-2</iframe></body></html>",
    ),
    (
        "impervaIncident",
        &[],
        "<html><body>Request unsuccessful. Incapsula incident ID: 123-456</body></html>",
    ),
    ("dataDome", &["x-datadome: protected", "x-dd-b: 1"], ""),
    (
        "dataDomeScript",
        &["x-datadome: protected"],
        "<html lang=\"en\"><head><title>a.example</title></head><body><p id=\"cmsg\">Please enable JS and disable any ad blocker</p>\
         <script data-cfasync=\"false\" src=\"https://ct.captcha-delivery.com/i.js\"></script></body></html>",
    ),
    (
        "dataDomeHost",
        &[],
        "<html><head><title>a.example</title></head><body><script data-cfasync=\"false\">var dd={'rt':'c','cid':'A',\
         'host':'geo.captcha-delivery.com'}</script></body></html>",
    ),
    (
        "human",
        &[],
        "<!DOCTYPE html><html><head><title>Access to this page has been denied</title></head><body><div class=\"px-captcha-container\">\
         </div><script>window._pxAppId = 'PX1';</script><div id=\"px-captcha\"></div></body></html>",
    ),
    ("sucuri", &["server: Sucuri/Cloudproxy", "x-sucuri-block: FBP007"], ""),
    (
        "sucuriTitle",
        &["server: Sucuri/Cloudproxy"],
        "<!DOCTYPE html>\n<html><head>\n<link rel=\"stylesheet\" href=\"https://cdn.sucuri.net/sucuri-firewall-block.css\" />\n\
         <title>Sucuri WebSite Firewall - Access Denied</title></head>",
    ),
    (
        "sucuriScript",
        &[],
        "<html><title>You are being redirected...</title>\n<noscript>Javascript is required.</noscript>\n<script>var s={},u,c,U,r,i,l=0,\
         a,e=eval,w=String.fromCharCode,sucuri_cloudproxy_js='',S='Yj0n';</script></html>",
    ),
    (
        "anubis",
        &[],
        "<!doctype html><html lang=\"en\"><head><title>Making sure you&#39;re not a bot!</title><link rel=\"stylesheet\" \
         href=\"/.within.website/x/xess/xess.css\"><style>body{display:flex}</style><script id=\"anubis_version\" type=\"application/json\">\
         \"v1.21.3\"\n</script></head><body id=\"top\"><main>",
    ),
    (
        "f5",
        &[],
        "<html><head><title>Request Rejected</title></head><body>The requested URL was rejected. Please consult with your administrator.\
         <br><br>Your support ID is: 1</body></html>",
    ),
];

#[test]
fn each_row_is_read_and_has_a_source() {
    assert_eq!(GATEKEEPERS.len(), rows().count(), "one is not understood");
    for row in rows() {
        let source = row.rsplit('\t').next().unwrap();
        assert!(source.starts_with("https://"), "{row}");
    }
    let mut ids: Vec<_> = GATEKEEPERS.iter().map(|row| row.id).collect();
    assert!(ids.iter().all(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric())), "stores keep them so");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), GATEKEEPERS.len(), "an id twice");
}

#[test]
fn each_row_is_recognised_in_each_of_its_statuses() {
    for row in &*GATEKEEPERS {
        let (_, fields, body) =
            REFUSALS.iter().find(|(id, ..)| *id == row.id).unwrap_or_else(|| panic!("{row:?}"));
        let statuses =
            if row.statuses.is_empty() { &[200, 202, 301, 403, 405, 429, 503][..] } else { &row.statuses };
        for status in statuses {
            let found = recognised(*status, &[&[HTML], *fields].concat(), body);
            let found = found.unwrap_or_else(|| panic!("{} with {status}", row.id));
            assert_eq!((found.by(), found.kind()), (row.by, row.kind), "{found:?} for {}", row.id);
        }
        // Where the page decides, another status is another page.
        if !row.markers.is_empty() {
            assert_eq!(recognised(404, &[&[HTML], *fields].concat(), body), None, "{}", row.id);
        }
    }
}

#[test]
fn ordinary_fields_of_a_network_are_no_refusal() {
    let page =
        "<!doctype html><title>Cats</title><h1>Cats</h1><p>Access Denied, Request Rejected, just a moment...";
    let fields: &[&[&str]] = &[
        &[
            "server: cloudflare",
            "cf-ray: 8f2b-SJC",
            "cf-cache-status: DYNAMIC",
            "set-cookie: __cf_bm=x",
            "set-cookie: cf_clearance=y",
        ],
        &["x-iinfo: 9-1-2", "x-cdn: Imperva", "set-cookie: visid_incap_1=x", "set-cookie: incap_ses_2=y"],
        &[
            "x-amz-cf-id: x",
            "x-amz-cf-pop: FRA",
            "x-cache: Error from cloudfront",
            "via: 1.1 x.cloudfront.net",
            "x-amzn-requestid: 1",
        ],
        &["x-datadome: protected", "set-cookie: datadome=x", "x-datadome-cid: y"],
        &["server: Vercel", "x-vercel-id: fra1::x", "x-vercel-cache: MISS"],
        &[
            "server: AkamaiGHost",
            "akamai-grn: 0.1",
            "set-cookie: ak_bmsc=x",
            "set-cookie: _abck=y",
            "server-timing: cdn-cache; desc=HIT",
        ],
        &["server: Sucuri/Cloudproxy", "x-sucuri-id: 19002", "x-sucuri-cache: MISS"],
        &["set-cookie: _px3=x", "set-cookie: _pxvid=y"],
        &["cf-mitigated: none", "x-amzn-waf-action: allow", "x-vercel-mitigated: log"],
    ];
    for fields in fields {
        for status in [200, 202, 206, 301, 304, 401, 403, 404, 405, 406, 410, 429, 500, 503] {
            assert_eq!(recognised(status, &[&[HTML], *fields].concat(), page), None, "{status} {fields:?}");
        }
    }
}

#[test]
fn a_page_that_quotes_a_challenge_is_none() {
    for (id, fields, body) in REFUSALS {
        let escaped = body.replace('&', "&amp;").replace('<', "&lt;");
        let articles = [
            format!(
                "<!doctype html><head><title>How {id} works</title></head><body><h1>A page</h1><pre>{escaped}</pre><p>{escaped}"
            ),
            format!("<!doctype html><title>How {id} works</title><article>{body}</article>"),
            format!("<!doctype html><title>How {id} works</title><p>It is:<pre><code>{body}</code></pre>"),
            format!(
                "<!doctype html><head><!-- {body} --><title>It</title><script type=x>{}</script><body>{body}",
                escaped
            ),
            format!(
                "<!doctype html><head><title>It</title><meta name=description content='{}'></head><p>",
                body.replace('\'', "")
            ),
            format!("<!doctype html><title>It</title><body><textarea>{body}</textarea>"),
        ];
        for (number, article) in articles.iter().enumerate() {
            assert_eq!(recognised(200, &[HTML, "server: cloudflare"], article), None, "{id} {number}");
            // An error page of the site that explains it, but for one that has it whole and outside of what
            // quotes.
            if number != 3 {
                assert_eq!(
                    recognised(403, &[HTML, "server: cloudflare"], article),
                    None,
                    "{id} {number}, 403"
                );
            }
        }
        let is_by_field = GATEKEEPERS.iter().any(|row| row.id == *id && row.markers.is_empty());
        assert!(
            is_by_field || recognised(200, &["content-type: text/plain"], body).is_none(),
            "{id}: {fields:?}"
        );
    }
}

#[test]
fn what_cloudflare_puts_into_ordinary_pages_is_no_challenge() {
    let page = "<html><head><title>Forbidden</title></head><body><h1>403</h1><script>(function(){function c(){var b=a.contentDocument;\
                if(b){var d=b.createElement('script');d.innerHTML=\"window.__CF$cv$params={r:'8'};var a=document.createElement('script');\
                a.src='/cdn-cgi/challenge-platform/scripts/jsd/main.js';\"}}})();</script></body></html>";
    for status in [200, 403, 503] {
        assert_eq!(recognised(status, &[HTML, "server: cloudflare"], page), None);
    }
}

#[test]
fn a_refusal_survives_as_its_id() {
    for row in &*GATEKEEPERS {
        let refusal = Refusal(row);
        let bytes = postcard::to_allocvec(&refusal).unwrap();
        assert_eq!(postcard::from_bytes::<Refusal>(&bytes), Ok(refusal));
    }
    let unknown = postcard::to_allocvec("later").unwrap();
    assert!(postcard::from_bytes::<Refusal>(&unknown).is_err());
}
