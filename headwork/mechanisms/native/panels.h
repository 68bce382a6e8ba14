// Vectors, panels and products of matrices in panels: what `encoder_block.cpp` is made of. Its head says how
// they lie in memory and which sizes the compiler knows.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace {

typedef REAL Real;
constexpr int T = TOKENS, R = OUTPUTS, D = WIDTH, F = HIDDEN, PANEL = 16;
constexpr int USED = WIDTH / HEADS, HEAD = (USED + PANEL - 1) / PANEL * PANEL;  // a head, padded with zeros
constexpr int INNER = HEADS * HEAD;                                             // all heads
constexpr int KEYS = (T + PANEL - 1) / PANEL * PANEL;  // a row of attention weights, padded with zeros
constexpr int LANES = VECTOR_BYTES / sizeof(Real), PARTS = PANEL / LANES;  // vectors per panel
constexpr int REGISTERS = VECTOR_BYTES == 64 ? 32 : 16;
static_assert(D % PANEL == 0 && F % PANEL == 0 && R <= T, "these sizes do not fit the panels");

typedef Real Vector __attribute__((vector_size(VECTOR_BYTES)));
typedef Real Loose __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(Real)), may_alias));

inline Vector load(const Real* from) { return *reinterpret_cast<const Loose*>(from); }
inline void store(Real* to, Vector value) { *reinterpret_cast<Loose*>(to) = value; }
inline Vector all(Real value) { return Vector{} + value; }
inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }

// Constants that the compiler would otherwise build again each time.
typedef std::conditional_t<sizeof(Real) == 4, int32_t, int64_t> Integer;
typedef Integer Whole __attribute__((vector_size(VECTOR_BYTES)));
struct Tables {
    alignas(64) Integer partner[LANES][LANES] = {}, low[LANES][LANES] = {}, high[LANES][LANES] = {},
                        is_key[KEYS] = {};
    constexpr Tables() {
        for (int step = 1; step < LANES; step *= 2)
            for (int lane = 0; lane < LANES; lane++) {
                partner[step][lane] = lane ^ step;
                low[step][lane] = lane & step ? LANES + lane - step : lane;
                high[step][lane] = lane & step ? LANES + lane : lane + step;
            }
        for (int i = 0; i < KEYS; i++) is_key[i] = i < T ? -1 : 0;
    }
    Whole at(const Integer* numbers) const { return *reinterpret_cast<const Whole*>(numbers); }
};
constexpr Tables TABLES;

// The sum (or the largest) of the numbers of a vector, in each of its places.
template <class Join>
inline Vector across(Vector v, Join join) {
#pragma GCC unroll 8
    for (int step = LANES / 2; step; step /= 2)
        v = join(v, __builtin_shuffle(v, TABLES.at(TABLES.partner[step])));
    return v;
}
inline Vector sum(Vector v) {
    return across(v, [](Vector a, Vector b) { return a + b; });
}

// --- exponential, GELU ------------------------------------------------------------------------------------
// e^x for x <= 0: 2^n e^r with |r| <= ln(2) / 2, the second factor by a polynomial (Cephes); in double, by
// the library.
template <class Number>
inline Vector exponential(Vector x) {
    if constexpr (sizeof(Number) == 8) {
        for (int i = 0; i < LANES; i++) x[i] = std::exp(x[i]);
        return x;
    } else {
        x = larger(all(-87.3f), x);       // in this order a NaN stays one
        const float magic = 12582912.0f;  // adding it rounds to a whole number, which stands in the low bits
        Vector shifted = x * all(1.44269504088896341f) + all(magic), n = shifted - all(magic);
        Vector r = x - n * all(0.693359375f) - n * all(-2.12194440e-4f);
        Vector p = all(1.9875691500e-4f);
        p = p * r + all(1.3981999507e-3f);
        p = p * r + all(8.3334519073e-3f);
        p = p * r + all(4.1665795894e-2f);
        p = p * r + all(1.6666665459e-1f);
        p = p * r + all(5.0000001201e-1f);
        p = p * (r * r) + r + all(1.0f);
        typedef uint32_t Bits __attribute__((vector_size(VECTOR_BYTES)));
        Bits power = ((Bits)shifted << 23) + (127u << 23);  // the magic number's own bits shift out
        return p * (Vector)power;
    }
}

// GELU x Phi(x) and its derivative Phi(x) + x phi(x); erf by Abramowitz and Stegun 7.1.26 (1.5e-7).
inline void activate(Vector x, Vector& value, Vector& slope) {
#if RELU
    value = x > Vector{} ? x : Vector{};
    slope = x > Vector{} ? all(1) : Vector{};
#else
    Vector bell = exponential<Real>(x * x * all(-0.5)), phi;
    if constexpr (sizeof(Real) == 8) {
        for (int i = 0; i < LANES; i++) phi[i] = 0.5 * std::erfc(-x[i] * 0.70710678118654752440);
    } else {
        Vector z = (x < Vector{} ? -x : x) * all(0.70710678118654752f);
        Vector t = all(1.0f) / (all(1.0f) + all(0.3275911f) * z), p = all(1.061405429f);
        p = p * t + all(-1.453152027f);
        p = p * t + all(1.421413741f);
        p = p * t + all(-0.284496736f);
        p = p * t + all(0.254829592f);
        Vector tail = all(0.5f) * p * t * bell;  // of the bell beyond |x|
        phi = x < Vector{} ? tail : all(1.0f) - tail;
    }
    value = x * phi;
    slope = phi + x * bell * all(0.39894228040143267794);
#endif
}

// --- products ---------------------------------------------------------------------------------------------
// A tile of ROWS x COLUMNS panels of C = A B. Element (r, k) of A stands at r * AR + k * AK within chunks of
// CHUNK, which lie `next` apart; row k of a panel of B at k * 16. `begin` gives and `end` takes each vector.
template <int ROWS, int COLUMNS, int K, int CHUNK, int AR, int AK, class Begin, class End>
inline __attribute__((always_inline)) void tile(const Real* a, size_t next, const Real* b, size_t panel,
                                                int row, int column, Begin begin, End end) {
    Vector c[ROWS][COLUMNS * PARTS];
#pragma GCC unroll 32
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
        for (int p = 0; p < COLUMNS * PARTS; p++)
            c[r][p] = begin(row + r, column + p / PARTS, p % PARTS * LANES);
    for (int chunk = 0; chunk < K; chunk += CHUNK, a += next) {
#pragma GCC unroll 4
        for (int k = 0; k < CHUNK; k++) {
            Vector right[COLUMNS * PARTS];
#pragma GCC unroll 8
            for (int p = 0; p < COLUMNS * PARTS; p++)
                right[p] = load(b + (p / PARTS) * panel + (chunk + k) * PANEL + p % PARTS * LANES);
#pragma GCC unroll 32
            for (int r = 0; r < ROWS; r++) {
                Vector left = all(a[r * AR + k * AK]);
#pragma GCC unroll 8
                for (int p = 0; p < COLUMNS * PARTS; p++) c[r][p] += left * right[p];
            }
        }
    }
#pragma GCC unroll 32
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
        for (int p = 0; p < COLUMNS * PARTS; p++)
            end(row + r, column + p / PARTS, p % PARTS * LANES, c[r][p]);
}

// C = A B for M rows and N panels of columns, in tiles that fill the registers. `at(row)` is where a row of A
// begins.
template <int M, int N, int K, int CHUNK, int AR, int AK, class At, class Begin, class End>
inline void multiply(At at, size_t next, const Real* b, size_t panel, Begin begin, End end) {
    constexpr int columns = N % 2 == 0 && REGISTERS / PARTS >= 32 ? 2 : 1;
    constexpr int most = (REGISTERS - columns * PARTS - 2) / (columns * PARTS);
    constexpr int tiles = (M + most - 1) / most, rows = M / tiles, longer = M % tiles;
    for (int column = 0; column < N; column += columns) {
        const Real* right = b + column * panel;
        int row = 0;
        for (int i = 0; i < longer; i++, row += rows + 1)
            tile<rows + 1, columns, K, CHUNK, AR, AK>(at(row), next, right, panel, row, column, begin, end);
        for (int i = longer; i < tiles; i++, row += rows)
            tile<rows, columns, K, CHUNK, AR, AK>(at(row), next, right, panel, row, column, begin, end);
    }
}

// A matrix in panels of ROWS rows each.
template <int ROWS>
struct Panels {
    Real* data;
    static constexpr size_t panel = size_t(ROWS) * PANEL;
    Real* at(int row, int column, int lane = 0) const { return data + column * panel + row * PANEL + lane; }
};

// C = A B, with A in panels of ROWS rows, of which M are taken, and K columns; B packed.
template <int M, int N, int K, int ROWS, class Begin, class End>
inline void times(Panels<ROWS> a, const Real* b, Begin begin, End end) {
    multiply<M, N, K, PANEL, PANEL, 1>([&](int row) { return a.data + row * PANEL; }, Panels<ROWS>::panel, b,
                                       size_t(K) * PANEL, begin, end);
}

// G += A^T B over M rows: gradients of packed weights, for K columns of A and N panels of B.
template <int M, int N, int K, int LEFT, int RIGHT>
inline void add_gradient(Panels<LEFT> a, Panels<RIGHT> b, Real* gradient) {
    for (int from = 0; from < K / PANEL; from++) {
        Real* rows = gradient + from * PANEL * PANEL;
        auto place = [&](int row, int column, int lane) {
            return rows + (size_t(column) * K + row) * PANEL + lane;
        };
        multiply<PANEL, N, M, M, 1, PANEL>(
            [&](int row) { return a.data + from * Panels<LEFT>::panel + row; }, 0, b.data,
            Panels<RIGHT>::panel, [&](int r, int c, int lane) { return load(place(r, c, lane)); },
            [&](int r, int c, int lane, Vector v) { store(place(r, c, lane), v); });
    }
}

}  // namespace
