// A board on a serial line: a verilated SerialSystem and the other end of the line, bit by bit.
#include <cstdint>
#include <deque>
#include <memory>

#include "Vbitstep_top.h"
#include "verilated.h"

#define API extern "C" __attribute__((visibility("default")))

namespace {

class UartBoard {
public:
    explicit UartBoard(uint32_t divisor)
        : context_{new VerilatedContext}, top_{new Vbitstep_top{context_.get()}},
          divisor_{divisor} {
        top_->rx = 1;
        top_->rst = 1;
        for (int i = 0; i < 4; ++i) cycle();
        top_->rst = 0;
        cycles = 0;
    }
    ~UartBoard() { top_->final(); }

    // Run until `wanted` bytes have come, at most `limit` cycles; all that is queued is sent on the
    // way. Returns the cycles it took.
    uint64_t run(uint64_t limit, uint64_t wanted) {
        uint64_t taken = 0;
        for (; taken < limit && (wanted == 0 || received.size() < wanted); ++taken) {
            send_bit();
            cycle();
            receive_bit();
        }
        return taken;
    }

    bool sending() const { return bits_ != 0 || !queue.empty(); }
    uint8_t lights() const { return top_->lights; }

    std::deque<uint8_t> queue, received;
    uint64_t cycles = 0, framing_errors = 0;

private:
    void cycle() {
        top_->clk = 0;
        top_->eval();
        top_->clk = 1;
        top_->eval();
        ++cycles;
    }

    // The line to the board: start bit, 8 bits, stop bit.
    void send_bit() {
        if (send_timer_ > 0) {
            --send_timer_;
            return;
        }
        if (bits_ == 0 && !queue.empty()) {
            frame_ = uint16_t(queue.front() << 1 | 0x200);
            queue.pop_front();
            bits_ = 10;
        }
        if (bits_ > 0) {
            top_->rx = frame_ & 1;
            frame_ >>= 1;
            --bits_;
            send_timer_ = divisor_ - 1;
        }
    }

    // The line from the board, sampled in the middle of each bit.
    void receive_bit() {
        if (receive_timer_ > 0) {
            --receive_timer_;
            return;
        }
        if (position_ == 0) {
            if (!top_->tx) {
                position_ = 1;
                receive_timer_ = divisor_ / 2 - 1;
            }
            return;
        }
        if (position_ == 1 && top_->tx) {       // a glitch, no start bit
            position_ = 0;
            return;
        }
        if (position_ > 1 && position_ < 10)
            byte_ = uint8_t(byte_ >> 1 | (top_->tx ? 0x80 : 0));
        receive_timer_ = divisor_ - 1;
        if (position_++ == 10) {
            if (top_->tx) received.push_back(byte_);
            else ++framing_errors;
            position_ = receive_timer_ = 0;
        }
    }

    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vbitstep_top> top_;
    uint32_t divisor_, send_timer_ = 0, receive_timer_ = 0, bits_ = 0, position_ = 0;
    uint16_t frame_ = 0;
    uint8_t byte_ = 0;
};

}  // namespace

API UartBoard* uart_create(uint32_t divisor) { return new UartBoard(divisor); }
API void uart_destroy(UartBoard* board) { delete board; }
API uint64_t uart_cycles(UartBoard* board) { return board->cycles; }
API uint64_t uart_framing_errors(UartBoard* board) { return board->framing_errors; }
API uint8_t uart_lights(UartBoard* board) { return board->lights(); }
API bool uart_sending(UartBoard* board) { return board->sending(); }
API uint64_t uart_run(UartBoard* board, uint64_t limit, uint64_t wanted) {
    return board->run(limit, wanted);
}
API void uart_send(UartBoard* board, const uint8_t* data, uint64_t n) {
    board->queue.insert(board->queue.end(), data, data + n);
}
API uint64_t uart_receive(UartBoard* board, uint8_t* data, uint64_t n) {
    uint64_t count = 0;
    for (; count < n && !board->received.empty(); ++count) {
        data[count] = board->received.front();
        board->received.pop_front();
    }
    return count;
}
