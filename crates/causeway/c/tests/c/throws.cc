/* A handler of calls that throws: throws PATH catches|leaves. */
#include <causeway.h>
#include <cstdio>
#include <stdexcept>
#include <string>

static void answer(void *user, const cw_request *, cw_responder *responder) {
    try {
        throw std::runtime_error("thrown");
    } catch (const std::exception &error) {
        if (*static_cast<std::string *>(user) == "leaves") throw;
        cw_reply(responder, error.what(), 6, nullptr, 0, nullptr);
        cw_responder_free(responder);
    }
}

int main(int argc, char **argv) {
    cw_server *server;
    cw_client *client;
    cw_request reply;
    if (argc != 3) return 2;
    std::string mode = argv[2];
    if (cw_call_serve(argv[1], nullptr, 0, answer, &mode, &server, nullptr)) return 1;
    if (cw_client_connect(argv[1], &client, nullptr)) return 1;
    if (cw_client_call(client, "", 0, CW_FOREVER, &reply, sizeof reply, nullptr)) return 1;
    std::printf("%.*s\n", int(reply.bytes), static_cast<const char *>(reply.data));
    cw_client_free(client);
    cw_server_free(server);
    return 0;
}
