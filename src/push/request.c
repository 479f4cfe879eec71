/* request.c - see request.h. */
#include "request.h"

void request_prepare(CURL *c, const struct request *r)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    curl.easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl.easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl.easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl.easy_setopt(c, CURLOPT_USERAGENT, "mallow/" MALLOW_VERSION);
    curl.easy_setopt(c, CURLOPT_ERRORBUFFER, r->error);
    curl.easy_setopt(c, CURLOPT_WRITEFUNCTION, r->body);
    curl.easy_setopt(c, CURLOPT_WRITEDATA, r->arg);
    curl.easy_setopt(c, CURLOPT_HEADERFUNCTION, r->header);
    curl.easy_setopt(c, CURLOPT_HEADERDATA, r->arg);
    if (r->authorities)
        curl.easy_setopt(c, CURLOPT_CAINFO, r->authorities);
}

bool request_worth_again(CURLcode code, long status)
{
    switch (code) {
    case CURLE_OK:
        return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE: return true;
    default: return false;
    }
}
