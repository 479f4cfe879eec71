// serving.cpp - an HTTP server for bench/attach.py: a thread a connection, strings and maps that live for a request, and
// exceptions: every third request ends by one that is caught five frames further out. Usage: serving PORT
#include <arpa/inet.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <netinet/in.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Word {
    std::string text;
    unsigned count = 0;
};

static void visit(std::map<std::string, std::unique_ptr<Word>> &words, unsigned n, unsigned depth)
{
    const std::string here = "a word that is too long to be kept inside, number " + std::to_string(n * 31 + depth);
    if (depth == 0 && n % 3 == 0)
        throw Refused("request " + std::to_string(n) + " is refused");
    auto &word = words[here];
    if (!word)
        word = std::make_unique<Word>();
    word->text = here;
    word->count++;
    if (depth)
        visit(words, n, depth - 1);
}

static std::string answer(unsigned n)
{
    std::map<std::string, std::unique_ptr<Word>> words;
    std::uint32_t sum = n;
    try {
        for (unsigned i = 0; i < 8; i++)
            visit(words, n, i);
        for (const auto &[text, word] : words)
            for (const char c : word->text)
                sum = sum * 31 + static_cast<unsigned char>(c) + word->count;
    } catch (const Refused &e) {
        return e.what();
    }
    return std::to_string(n) + " " + std::to_string(sum);
}

static void serve(int connection)
{
    std::string got;
    char bytes[4096];
    for (ssize_t n; (n = read(connection, bytes, sizeof bytes)) > 0;) {
        got.append(bytes, static_cast<size_t>(n));
        for (size_t end; (end = got.find("\r\n\r\n")) != std::string::npos; got.erase(0, end + 4)) {
            const std::string body = answer(static_cast<unsigned>(std::strtoul(got.c_str() + 5, nullptr, 10)));
            const std::string all = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
            if (write(connection, all.data(), all.size()) != static_cast<ssize_t>(all.size()))
                break;
        }
    }
    close(connection);
}

int main(int argc, char **argv)
{
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<std::uint16_t>(argc > 1 ? std::atoi(argv[1]) : 0));
    const int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, reinterpret_cast<sockaddr *>(&at), sizeof at) || listen(listener, 16))
        return 1;
    for (int c; (c = accept(listener, nullptr, nullptr)) >= 0;)
        std::thread(serve, c).detach();
}
