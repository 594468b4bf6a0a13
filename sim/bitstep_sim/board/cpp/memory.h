// Memory behind the AXI ports: who may touch what, how fast, and what went wrong.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

enum Response : uint8_t { OKAY = 0, SLVERR = 2, DECERR = 3 };

struct Range {
    uint64_t start, size;
    // Written so that nothing overflows at the end of the address space.
    bool contains(uint64_t address, uint64_t n) const {
        return address >= start && address - start <= size && n <= size - (address - start);
    }
    bool overlaps(uint64_t address, uint64_t n) const {
        return address < start ? start - address < n : address - start < size;
    }
};

class Memory {
public:
    Memory(uint64_t base, uint64_t size) : base_(base), size_(size) {
        void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        data_ = static_cast<uint8_t*>(memory);
    }
    Memory(const Memory&) = delete;
    ~Memory() { munmap(data_, size_); }

    uint8_t* data() { return data_; }
    uint8_t* at(uint64_t address) { return data_ + (address - base_); }

    // The worst response that a byte of [address, address + n) gives.
    Response response(uint64_t address, uint64_t n) const {
        bool allocated = false;
        for (const Range& range : allocated_) allocated |= range.contains(address, n);
        if (!allocated) return DECERR;
        for (const Range& range : broken_)
            if (range.overlaps(address, n)) return SLVERR;
        return OKAY;
    }

    void stray(const char* what, uint64_t address) {
        if (strays++ == 0) {
            first_stray = address;
            first_stray_port = what;
        }
    }

    // Only the first violation is kept: the others usually follow from it.
    void violate(uint64_t cycle, const std::string& message) {
        if (violation.empty()) violation = "cycle " + std::to_string(cycle) + ": " + message;
    }

    std::vector<Range> allocated_, broken_;
    std::string violation;
    uint64_t strays = 0, first_stray = 0;
    const char* first_stray_port = "";

private:
    uint64_t base_, size_;
    uint8_t* data_;
};

// Bytes per cycle that all ports share. In a cycle that starts without debt every port may transfer a
// beat, which is put on the debt; so the long-run rate is exact for any beat size, and no port
// starves another. What two idle cycles save is kept, because a write is charged a cycle after WREADY
// promised it.
class Bandwidth {
public:
    explicit Bandwidth(double bytes_per_cycle) : rate_(bytes_per_cycle) {}
    void restart() {
        debt_ = 0;
        available_ = true;
    }
    void tick() {
        if (rate_ <= 0) return;
        debt_ = debt_ > -rate_ ? debt_ - rate_ : -2 * rate_;
        available_ = debt_ < rate_;
    }
    bool available() const { return available_; }
    void spend(uint64_t n) {
        if (rate_ > 0) debt_ += static_cast<double>(n);
    }

private:
    double rate_, debt_ = 0;
    bool available_ = true;
};

// One random number per question, none if the probability is 0.
class Stalls {
public:
    Stalls(double probability, uint64_t seed)
        : threshold_(static_cast<uint64_t>(probability * 4294967296.0)),
          first_(seed * 0x9E3779B97F4A7C15u + 0xD1B54A32D192ED03u) {
        if (first_ == 0) first_ = 1;
        restart();
    }
    void restart() { state_ = first_; }
    bool operator()() {
        if (threshold_ == 0) return false;
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return (state_ >> 32) < threshold_;
    }

private:
    uint64_t threshold_, first_, state_ = 1;
};

struct Timing {
    uint64_t cycle = 0;
    uint64_t latency;
    Bandwidth bandwidth;
    Stalls stalls;
    uint64_t frozen_until = 0;      // before this cycle no port does anything

    bool stalled() {
        const bool stall = stalls();
        return stall || cycle < frozen_until;
    }

    // From here on everything takes as long as on a new board.
    void restart() {
        bandwidth.restart();
        stalls.restart();
        frozen_until = 0;
    }
};

// An answer that a test asks for: the n-th one of a port is an error, whatever its address.
class Fault {
public:
    void set(uint64_t number, Response response) {
        left_ = number;
        response_ = response;
    }
    Response answer(Response otherwise) { return left_ && --left_ == 0 ? response_ : otherwise; }

private:
    uint64_t left_ = 0;
    Response response_ = OKAY;
};
