// streams_victim.cc - reads a byte, and then prints what the C++ library makes of some numbers.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <locale>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

int main()
{
    std::cin.get();
    std::map<std::string, double> numbers;
    for (int i = 0; i < 50; i++) {
        std::ostringstream name;
        name << std::setw(4) << std::setfill('0') << i * 7919 % 50 << std::hex << i;
        numbers[name.str()] = 1.5 * i / 7;
    }
    double sum = 0;
    std::string all;
    for (const auto &n : numbers) {
        std::istringstream back(n.first);
        int value = 0;
        back >> value;
        sum += n.second * value;
        all.append(n.first).insert(all.size() / 2, 1, 'x');
    }
    std::sort(all.begin(), all.end());
    std::cout << all << ' ' << std::setprecision(17) << sum << ' ' << all.find("9a") << std::endl;
    try {
        std::cout << all.substr(all.size() + 1);
    } catch (const std::out_of_range &e) {
        std::cout << e.what() << std::endl;
    }
    std::cout << std::use_facet<std::ctype<char>>(std::locale()).toupper('q') << std::endl;
}
